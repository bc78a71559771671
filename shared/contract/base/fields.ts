import { z } from 'zod';
import type { JsonObject } from '../../base/json.ts';
import { riskTiers } from '../../vocabulary/action.ts';
import { integerId } from './schemas.ts';

/**
 * Schema of text that Postgres and the ledger can store: bounded, well-formed, and without NUL,
 * which JSON allows but a text column does not.
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

/** Non-empty `text`. */
export function name(charsMax: number) {
  return text(charsMax).min(1);
}

/** Bounded so that a tool id always fits in an index entry. */
export const toolId = name(256);
export const agentId = name(64);
export const userId = name(256);
export const resourceId = name(1024);
export const goal = text(4096);
export const riskTier = z.enum(riskTiers);

/**
 * An object with any content. The members are JSON because bodies come from `JSON.parse`; the cast
 * avoids validating the members again.
 */
export const jsonObject = z.record(z.string(), z.unknown()) as unknown as z.ZodType<
  JsonObject,
  JsonObject
>;

/** A row's id in a path. */
export const rowIdParam = z.object({ id: integerId });
