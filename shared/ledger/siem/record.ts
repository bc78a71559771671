import type { JsonValue } from '../../base/json.ts';
import type { EvidenceEvent } from '../event.ts';

/** A sealed event for a SIEM: the content of its canonical text, and its hashes. */
export interface SiemRecord {
  readonly event: EvidenceEvent & {
    readonly tenant: string;
    readonly position: number;
    readonly seq: number;
  };
  readonly prevHash: string;
  readonly eventHash: string;
}

/** The outcome for an action, decided by policies or by humans. */
export type Outcome = 'allowed' | 'approved' | 'warned' | 'held' | 'denied' | 'failed' | 'recorded';

/**
 * Incidents of the ledger itself; until such an incident is explained, the ledger is not
 * trustworthy.
 */
const alarms = [/^chain_verification_failed$/, /^evidence\.(fork|id_conflict)$/, /^integrity\./];

export function outcomeOf({ type, decision, reason_code: reason }: SiemRecord['event']): Outcome {
  if (isAlarm(type)) return 'failed';
  switch (decision) {
    case undefined:
      return type === 'execution.result' && reason !== undefined ? 'failed' : 'recorded';
    case 'allow':
      return reason === 'approval.satisfied' ? 'approved' : 'allowed';
    case 'warn':
      return 'warned';
    case 'require_approval':
    case 'require_tool_reapproval':
      return 'held';
    // All other values count as denied, because an unknown value must not look like a permission.
    default:
      return 'denied';
  }
}

export function isAlarm(type: string): boolean {
  return alarms.some((form) => form.test(type));
}

/** A single word for the event: the called tool, or else the kind of event. */
export function operationOf({ type, tool }: SiemRecord['event']): string {
  return type === 'decision' || type === 'execution.result' ? (tool ?? type) : type;
}

/** A text member of the event's data. */
export function textOf(value: JsonValue | undefined): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** The matching rules that the event names. */
export function rulesOf({ data }: SiemRecord['event']): readonly string[] {
  const { matched_rules: rules } = data;
  return Array.isArray(rules) ? rules.filter((rule) => typeof rule === 'string') : [];
}

/** Removes undefined members, so that dialects can list all fields that they know. */
export function stated<Value extends object>(value: Value): Value {
  return Object.fromEntries(
    Object.entries(value).filter(([, member]) => member !== undefined),
  ) as Value;
}
