import type { z } from 'zod';
import { GatewayError } from '../../../shared/errors/gateway-error.ts';

/** The same for JSON that a text column holds. */
export function readTextColumn<Read>(
  schema: z.ZodType<Read>,
  text: string,
  column: `${string}.${string}`,
): Read {
  return readColumn(schema, jsonOf(text), column);
}

/** No schema takes undefined for a value. */
function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * A JSON column as its schema reads it. One that does not parse was not written by this system:
 * the request is refused, and nothing of the value is used.
 */
export function readColumn<Read>(
  schema: z.ZodType<Read>,
  value: unknown,
  column: `${string}.${string}`,
): Read {
  const read = schema.safeParse(value);
  if (read.success) return read.data;
  const cause = new Error(`${column} does not parse: ${read.error.issues[0]?.message ?? ''}`);
  throw new GatewayError('integrity.forged_row', { cause });
}
