import type { z } from 'zod';
import { GatewayError } from '../../../shared/errors/gateway-error.ts';

/** Like `readColumn`, but for JSON in a text column. */
export function readTextColumn<Read>(
  schema: z.ZodType<Read>,
  text: string,
  column: `${string}.${string}`,
): Read {
  return readColumn(schema, jsonOf(text), column);
}

/** Parses JSON. Returns undefined for invalid JSON, because no schema accepts undefined. */
function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * Parses a JSON column by its schema. A value that does not parse was not written by this system,
 * so the request is refused.
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
