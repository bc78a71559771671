import type { ActionResponse } from '../../shared/contract/actions.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { Services } from '../core/services.ts';
import { argumentsSetting } from '../ledger/privacy/arguments-setting.ts';
import type { SaltedEvent } from '../ledger/privacy/store-salts.ts';
import type { Begin } from '../platform/http/idempotency.ts';
import { measureWork } from '../platform/scheduling/work-meter.ts';
import { answerOf, isPassing, type JudgedAction, outcomeOf } from './decision-answer.ts';
import { decisionEvent } from './decision-event.ts';
import { type Judging, judgeAction } from './judge-action.ts';
import { pendingDecision } from './pending-decision.ts';
import { sealSalted } from './seal-salted.ts';

/**
 * One decision on an action. The caller runs the steps in this order: `decide`, `persist` (if the
 * request has an idempotency key), `seal`, `answer`. No response is sent before the decision is
 * sealed.
 */
export class DecisionAttempt {
  readonly judged: JudgedAction;
  readonly #services: Services;
  readonly #tenantId: string;
  readonly #sealing: SaltedEvent;
  #isAnswerKept = false;

  private constructor(
    services: Services,
    tenantId: string,
    { judged, sealing }: { readonly judged: JudgedAction; readonly sealing: SaltedEvent },
  ) {
    this.judged = judged;
    this.#services = services;
    this.#tenantId = tenantId;
    this.#sealing = sealing;
  }

  /** Judges the action, executes the effects of the verdict, and builds the decision's event. */
  static async decide(services: Services, judging: Judging): Promise<DecisionAttempt> {
    const { tenantId } = judging.action;
    const reached = await judgeAction(services, judging);
    const setting = await argumentsSetting(services, tenantId);
    const usageRun = services.usage.run;
    const sealing = measureWork(() =>
      decisionEvent({ ...judging, ...reached, usageRun, setting }, services.clock),
    );
    const { id: eventId, chain_id: chainId } = sealing.event;
    return new DecisionAttempt(services, tenantId, {
      judged: { ...reached, eventId, chainId },
      sealing,
    });
  }

  /**
   * Stores the decision and its response under the idempotency key, before the decision is sealed.
   * If this process dies before sealing, a repeat of the request seals the stored decision and
   * returns its response. A new decision would differ, because the passport is already consumed.
   * Does not store a temporary outcome. Throws if another process took over the key.
   */
  async persist(begin: Begin): Promise<void> {
    try {
      const outcome = outcomeOf(this.judged);
      if (!isPassing(outcome)) {
        await begin({ status: 200, body: pendingDecision(this.#sealing, outcome) });
      }
    } catch (error) {
      this.judged.release();
      throw error;
    }
    this.#isAnswerKept = true;
  }

  /** Throws `evidence.seal_failed` if the decision cannot be sealed; the action is then denied. */
  async seal(): Promise<void> {
    const { event } = this.#sealing;
    try {
      await sealSalted(this.#services, this.#tenantId, this.#sealing);
    } catch (cause) {
      // If the response is stored, a repeat may receive it although sealing failed. The call then
      // stays counted.
      if (!this.#isAnswerKept) this.judged.release();
      this.#services.log.error(
        { err: cause, event: event.id },
        'could not seal a decision; the action was denied',
      );
      throw new GatewayError('evidence.seal_failed', {
        cause,
        details: { decision: 'deny', chain_id: event.chain_id, evidence_event_id: event.id },
      });
    }
  }

  /** Returns the API response; throws if the contract prescribes an error for the decision. */
  answer(): ActionResponse {
    return answerOf(this.judged);
  }
}
