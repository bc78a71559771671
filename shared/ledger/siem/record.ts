import type { JsonValue } from '../../base/json.ts';
import type { EvidenceEvent } from '../event.ts';

/** A sealed event as it goes to a SIEM: what its canonical text says, and its links. */
export interface SiemRecord {
  readonly event: EvidenceEvent & {
    readonly tenant: string;
    readonly position: number;
    readonly seq: number;
  };
  readonly prevHash: string;
  readonly eventHash: string;
}

/** What an event says was done about an action, whoever decided. */
export type Outcome = 'allowed' | 'approved' | 'warned' | 'held' | 'denied' | 'failed' | 'recorded';

/** Incidents of the ledger itself: nothing about it can be trusted before they are explained. */
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
    // Everything else denies: a word that is not known must not look like a permission.
    default:
      return 'denied';
  }
}

export function isAlarm(type: string): boolean {
  return alarms.some((form) => form.test(type));
}

/** What happened, as one word: the tool that was to be called, else the kind of event. */
export function operationOf({ type, tool }: SiemRecord['event']): string {
  return type === 'decision' || type === 'execution.result' ? (tool ?? type) : type;
}

/** A member of the event's data that is a text. */
export function textOf(value: JsonValue | undefined): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** The rules that matched, where the event names any. */
export function rulesOf({ data }: SiemRecord['event']): readonly string[] {
  const { matched_rules: rules } = data;
  return Array.isArray(rules) ? rules.filter((rule) => typeof rule === 'string') : [];
}

/** An object without its undefined members, so that dialects can name all they know. */
export function stated<Value extends object>(value: Value): Value {
  return Object.fromEntries(
    Object.entries(value).filter(([, member]) => member !== undefined),
  ) as Value;
}
