import type { Clock } from '../../../shared/base/clock.ts';
import { newId } from '../../../shared/base/ids.ts';
import type { JsonObject } from '../../../shared/base/json.ts';
import type { EvidenceEvent } from '../../../shared/ledger/event.ts';

export interface NewEvent {
  /** Id of the event; default: a new one. */
  readonly id?: string | undefined;
  /** For example `policy.published`. */
  readonly type: string;
  /** `agent:<id>` for an agent's actions, otherwise `<area>:<name>`. */
  readonly chainId: string;
  readonly agentId?: string | undefined;
  readonly userId?: string | undefined;
  readonly tool?: string | undefined;
  readonly resource?: string | undefined;
  readonly decision?: string | undefined;
  readonly reasonCode?: string | undefined;
  readonly data: JsonObject;
}

/** Builds an event of the control plane at the current time, with its keys in canonical order. */
export function newEvent(fields: NewEvent, clock: Clock): EvidenceEvent {
  const nowMs = clock.now();
  return {
    agent_id: fields.agentId,
    chain_id: fields.chainId,
    data: fields.data,
    decision: fields.decision,
    id: fields.id ?? newId('ev', nowMs),
    occurred_at: new Date(nowMs).toISOString(),
    reason_code: fields.reasonCode,
    resource: fields.resource,
    source: 'control-plane',
    tool: fields.tool,
    type: fields.type,
    user_id: fields.userId,
  };
}

export function agentChain(agentId: string): string {
  return `agent:${agentId}`;
}
