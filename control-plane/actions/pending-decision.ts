import { z } from 'zod';
import type { ActionResponse } from '../../shared/contract/actions.ts';
import { isErrorCode } from '../../shared/errors/error-kinds.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { Services } from '../core/services.ts';
import type { SaltedEvent } from '../ledger/privacy/store-salts.ts';
import { sealSalted } from './seal-salted.ts';

/** A decision as it is about to be sealed. */
export type Sealing = SaltedEvent;

type Outcome = { readonly answer: ActionResponse } | { readonly refusal: GatewayError };

// What is sealed again must be the same bytes: records keep the order of their members.
const members = z.record(z.string(), z.unknown());
const pendingDecisionForm = z.object({
  left_behind: z.object({
    event: members,
    salt: z.string(),
    args: members.optional(),
    answer: members.optional(),
    refusal: z
      .object({
        code: z.string().refine(isErrorCode),
        message: z.string(),
        details: members,
      })
      .optional(),
  }),
});

/**
 * What a repeat needs, should this process die while it seals: the decision and the answer to it.
 * Nothing would decide the same again, for the passport is used.
 */
export function pendingDecision(sealing: Sealing, outcome: Outcome): object {
  if ('answer' in outcome) return { left_behind: { ...sealing, answer: outcome.answer } };
  const { code, message, details = {} } = outcome.refusal;
  return { left_behind: { ...sealing, refusal: { code, message, details } } };
}

/**
 * The answer out of what an idempotency key holds. Of a decision that was left behind nobody knows
 * whether it was sealed: it is sealed first, which changes nothing where it was.
 */
export async function readAnswer(
  services: Pick<Services, 'pool' | 'vault' | 'ledger'>,
  tenantId: string,
  body: unknown,
): Promise<ActionResponse> {
  const left = pendingDecisionForm.safeParse(body);
  if (!left.success) return body as ActionResponse;
  const { answer, refusal, ...sealing } = left.data.left_behind;
  try {
    await sealSalted(services, tenantId, sealing as unknown as Sealing);
  } catch (cause) {
    throw new GatewayError('evidence.seal_failed', { cause, details: { decision: 'deny' } });
  }
  if (refusal !== undefined) throw new GatewayError(refusal.code, refusal);
  return answer as unknown as ActionResponse;
}
