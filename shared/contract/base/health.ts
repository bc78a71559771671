import { z } from 'zod';

/** The body of `/readyz`; status 200 if every check passed, otherwise 503. */
export const readyAnswer = z.object({
  ready: z.boolean(),
  checks: z.array(z.object({ name: z.string(), ok: z.boolean() })),
});
export type ReadyAnswer = z.output<typeof readyAnswer>;
