import { z } from 'zod';

/** What `/readyz` answers, with 200 when every check passed and 503 otherwise. */
export const readyAnswer = z.object({
  ready: z.boolean(),
  checks: z.array(z.object({ name: z.string(), ok: z.boolean() })),
});
export type ReadyAnswer = z.output<typeof readyAnswer>;
