import { z } from 'zod';
import { named, statedAs } from './json-schema.ts';

/** Schemas that several resources share. */

/** The body of every error response; some have further fields. */
export const apiError = z.looseObject({ error: z.string(), reason_code: z.string().optional() });
named('ApiError', apiError);

/** An error response of an operation that decides an action. */
export const decisionError = apiError.extend({ decision: z.literal('deny') });
named('DecisionError', decisionError);

/** Years that Postgres and JavaScript support in every time zone, with a margin. */
const storableTime =
  /^(?!000[01]|9999-12-[23])\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-](0\d|1[0-4]):[0-5]\d)$/;

/** True if Postgres and JavaScript can both represent an RFC 3339 time. */
export function isStorableTime(text: string): boolean {
  return storableTime.test(text) && !Number.isNaN(Date.parse(text));
}

/** RFC 3339 with an offset or `Z`. */
export const dateTime = statedAs(
  z.iso
    .datetime({ offset: true })
    .refine(isStorableTime, 'must lie in the years 2 to 9999, at most 14 hours from UTC'),
  { type: 'string', format: 'date-time', maxLength: 40, pattern: storableTime.source },
);

/** A whole number in a path or query, in JSON notation. */
export function wholeNumber(min: number, max: number) {
  const message = `must be a whole number from ${min} to ${max}`;
  return statedAs(
    z
      .string()
      .regex(/^(0|[1-9]\d{0,15})$/, message)
      .transform(Number)
      .refine((value) => value >= min && value <= max, message),
    { type: 'integer', minimum: min, maximum: max },
  );
}

/** A positive integer in a path. */
export const integerId = wholeNumber(1, 2_147_483_647);

/** Page size, in a query. */
export const pageLimit = wholeNumber(1, 1000).default(100);

/** An opaque id in a path or body, such as `key_0198…`. */
export const opaqueId = z
  .string()
  .regex(/^[0-9A-Za-z._-]{1,100}$/, 'must be an id: 1 to 100 letters, digits, ., _ or -');

/** Warnings about probable mistakes in the requested change; absent if there are none. */
export const warnings = z.array(z.string().max(5_000)).max(21).optional();

/** One line of text without control characters. */
export function line(lengthMax: number) {
  return z
    .string()
    .min(1)
    .max(lengthMax)
    .refine((text) => !/\p{Cc}/u.test(text), 'must not contain control characters')
    .meta({ pattern: '^[^\\u0000-\\u001f\\u007f-\\u009f]*$' });
}
