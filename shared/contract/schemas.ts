import { z } from 'zod';

/** Schemas that several resources share. */

/** Every error answer (contract 7); some carry further fields beside these. */
export const apiError = z.looseObject({
  error: z.string(),
  reason_code: z.string().optional(),
});

const earliestMs = Date.parse('0001-01-01T00:00:00Z');
const latestMs = Date.parse('9999-12-31T00:00:00Z');
const zone = /(Z|[+-](0\d|1[0-4]):[0-5]\d)$/;

/** Whether Postgres and JavaScript both know a time of RFC 3339, with some room after it. */
export function isStorableTime(text: string): boolean {
  const ms = Date.parse(text);
  return ms >= earliestMs && ms <= latestMs && zone.test(text) && text.length <= 40;
}

/** RFC 3339 with an offset or `Z`. */
export const dateTime = z.iso
  .datetime({ offset: true })
  .refine(isStorableTime, 'must lie in the years 1 to 9999, at most 14 hours from UTC');

/** A positive integer in a path. */
export const integerId = z
  .string()
  .regex(/^[1-9]\d{0,9}$/, 'must be a positive integer')
  .transform(Number)
  .refine((id) => id <= 2_147_483_647, 'must be a positive integer');

/** How many of a list, in a query. */
export const pageLimit = z
  .string()
  .regex(/^\d{1,4}$/, 'must be a whole number from 1 to 1000')
  .transform(Number)
  .refine((limit) => limit >= 1 && limit <= 1000, 'must be a whole number from 1 to 1000')
  .default(100);

/** An opaque id in a path or body, such as `key_0198…`. */
export const opaqueId = z.string().regex(/^[0-9A-Za-z._-]{1,100}$/, 'is not an id');

/** One line of text: no control characters. */
export function line(lengthMax: number) {
  return z
    .string()
    .min(1)
    .max(lengthMax)
    .refine((text) => !/\p{Cc}/u.test(text), 'must not hold control characters');
}
