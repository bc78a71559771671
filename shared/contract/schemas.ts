import { z } from 'zod';

/** Schemas that several resources share. */

/** Every error answer (contract 7); some carry further fields beside these. */
export const apiError = z.looseObject({
  error: z.string(),
  reason_code: z.string().optional(),
});

/** RFC 3339 with an offset or `Z`. */
export const dateTime = z.iso.datetime({ offset: true });

/** A positive integer in a path. */
export const integerId = z
  .string()
  .regex(/^[1-9]\d{0,9}$/, 'must be a positive integer')
  .transform(Number)
  .refine((id) => id <= 2_147_483_647, 'must be a positive integer');

/** An opaque id in a path or body, such as `key_0198…`. */
export const opaqueId = z.string().regex(/^[0-9A-Za-z._-]{1,100}$/, 'is not an id');

/** A JSON object with any members. */
export const anyObject = z.record(z.string(), z.unknown());

/** One line of text: no control characters. */
export function line(lengthMax: number) {
  return z
    .string()
    .min(1)
    .max(lengthMax)
    .refine((text) => !/\p{Cc}/u.test(text), 'must not hold control characters');
}
