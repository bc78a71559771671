import { z } from 'zod';
import type { JsonObject } from '../../base/json.ts';
import { riskTiers } from '../../vocabulary/action.ts';
import { integerId } from './schemas.ts';

/**
 * A text that Postgres and the ledger can hold: bounded, well-formed, and without NUL, which
 * JSON allows and a text column does not.
 */
export function text(charsMax: number) {
  return z
    .string()
    .max(charsMax)
    .refine((value) => value.isWellFormed() && !value.includes('\0'), {
      message: 'must be well-formed text without NUL',
    })
    .meta({ pattern: '^[^\\u0000]*$' });
}

/** The same, and not empty. */
export function name(charsMax: number) {
  return text(charsMax).min(1);
}

/** Bounded so that an index entry over it always fits. */
export const toolId = name(256);
export const agentId = name(64);
export const userId = name(256);
export const resourceId = name(1024);
export const goal = text(4096);
export const riskTier = z.enum(riskTiers);

/**
 * An object of any content. Bodies come out of `JSON.parse`, so that their members are JSON by
 * construction and need not be walked again; the type says so.
 */
export const jsonObject = z.record(z.string(), z.unknown()) as unknown as z.ZodType<
  JsonObject,
  JsonObject
>;

/** A row's id in a path. */
export const rowIdParam = z.object({ id: integerId });
