import { gatewayName, product } from './product.ts';
import {
  isAlarm,
  type Outcome,
  operationOf,
  outcomeOf,
  rulesOf,
  type SiemRecord,
  stated,
  textOf,
} from './record.ts';

// OCSF 1.6.0, class API Activity (6003) with profile security_control.
const version = '1.6.0';
const classUid = 6003;
const other = 99;

interface Control {
  readonly action_id?: number;
  readonly disposition_id?: number;
  readonly status_id?: number;
  readonly severity_id: number;
}

const controls: Readonly<Record<Outcome, Control>> = {
  allowed: { action_id: 1, disposition_id: 1, status_id: 1, severity_id: 1 },
  approved: { action_id: 1, disposition_id: 8, status_id: 1, severity_id: 1 },
  warned: { action_id: 1, disposition_id: 19, status_id: 1, severity_id: 3 },
  held: { action_id: 2, disposition_id: 14, status_id: 2, severity_id: 3 },
  denied: { action_id: 2, disposition_id: 2, status_id: 2, severity_id: 4 },
  failed: { status_id: 2, severity_id: 3 },
  recorded: { severity_id: 1 },
};

/** OCSF activities by the end of the event type's name. */
const activities: readonly (readonly [form: RegExp, id: number])[] = [
  [/\.(created|issued|stored|enrolled|installed|ingested|requested|published)$/, 1],
  [/\.(exported)$/, 2],
  [/\.(updated|written|renewed|rotated|decided|used|armed|drifted|reapproved)$/, 3],
  [/\.(deleted|removed|revoked|expired|disarmed|archived|disabled|erased)$/, 4],
];

export function toOcsf({ event, prevHash, eventHash }: SiemRecord): object {
  const activity = activities.find(([form]) => form.test(event.type))?.[1] ?? other;
  const rules = rulesOf(event);
  return stated({
    metadata: {
      version,
      product: { name: product.name, vendor_name: product.vendor, version: product.version },
      uid: event.id,
      tenant_uid: event.tenant,
      sequence: event.position,
      event_code: event.type,
      profiles: ['security_control'],
    },
    category_uid: 6,
    class_uid: classUid,
    activity_id: activity,
    activity_name: activity === other ? event.type : undefined,
    type_uid: classUid * 100 + activity,
    time: Date.parse(event.occurred_at),
    ...controls[outcomeOf(event)],
    ...(isAlarm(event.type) ? { severity_id: 5, is_alert: true } : {}),
    status_detail: event.reason_code,
    actor: actorOf(event),
    api: { operation: operationOf(event), service: { name: event.source } },
    src_endpoint: { name: gatewayName },
    resources: event.resource === undefined ? undefined : [{ uid: event.resource }],
    policy:
      rules.length === 0 ? undefined : { name: rules[0], uid: textOf(event.data.policy_hash) },
    unmapped: {
      sallyport: stated({
        chain_id: event.chain_id,
        seq: event.seq,
        position: event.position,
        event_hash: eventHash,
        prev_hash: prevHash,
        decision: event.decision,
        matched_rules: rules.length === 0 ? undefined : rules,
        data: event.data,
      }),
    },
  });
}

/**
 * Returns the actor of an event. OCSF requires at least one member; without agent and user, the
 * source is the actor.
 */
function actorOf({ agent_id, user_id, source, data }: SiemRecord['event']): object {
  const user = user_id ?? textOf(data.by);
  return stated({
    user: user === undefined ? undefined : { uid: user },
    app_uid: agent_id ?? (user === undefined ? source : undefined),
  });
}

export function toOcsfLine(record: SiemRecord): string {
  return `${JSON.stringify(toOcsf(record))}\n`;
}
