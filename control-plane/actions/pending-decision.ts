import { z } from 'zod';
import type { ActionResponse } from '../../shared/contract/actions.ts';
import { isErrorCode } from '../../shared/errors/error-kinds.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { Services } from '../core/services.ts';
import type { SaltedEvent } from '../ledger/privacy/store-salts.ts';
import type { Outcome } from './decision-answer.ts';
import { sealSalted } from './seal-salted.ts';

// Uses `z.record` because it keeps the order of members: an event that is sealed again must have
// the same bytes.
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
 * Builds the body that is stored under the idempotency key before sealing: the decision's event and
 * its response. If this process dies, a repeat of the request uses this body. A new decision would
 * differ, because the passport is already consumed.
 */
export function pendingDecision(sealing: SaltedEvent, outcome: Outcome): object {
  if ('answer' in outcome) return { left_behind: { ...sealing, answer: outcome.answer } };
  const { code, message, details = {} } = outcome.refusal;
  return { left_behind: { ...sealing, refusal: { code, message, details } } };
}

/**
 * Reads the response that is stored under an idempotency key. Seals a pending decision first,
 * because the process that stored it may have died before sealing. Sealing twice changes nothing.
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
    await sealSalted(services, tenantId, sealing as unknown as SaltedEvent);
  } catch (cause) {
    throw new GatewayError('evidence.seal_failed', { cause, details: { decision: 'deny' } });
  }
  if (refusal !== undefined) throw new GatewayError(refusal.code, refusal);
  return answer as unknown as ActionResponse;
}
