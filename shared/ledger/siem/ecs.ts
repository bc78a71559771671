import { product } from './product.ts';
import { type Outcome, outcomeOf, rulesOf, type SiemRecord, stated } from './record.ts';

/** The default data stream of events; a collector can override it. */
export const ecsIndex = 'logs-sallyport.evidence-default';

const words: Readonly<
  Record<Outcome, { readonly type: readonly string[]; readonly outcome?: string }>
> = {
  allowed: { type: ['allowed'], outcome: 'success' },
  approved: { type: ['allowed'], outcome: 'success' },
  warned: { type: ['allowed', 'info'], outcome: 'success' },
  held: { type: ['denied'], outcome: 'unknown' },
  denied: { type: ['denied'], outcome: 'failure' },
  failed: { type: ['error'], outcome: 'failure' },
  recorded: { type: ['info'] },
};

/**
 * Formats an event for a bulk endpoint, in ECS: the action line and the document line. The event's
 * position is the document id, so that a repeated delivery is stored once. The event id is not
 * used, because ids of different sources could collide.
 */
export function toBulkLines(record: SiemRecord): string {
  const { event } = record;
  const _id = `${event.tenant}:${event.position}`;
  const action = { create: { _index: ecsIndex, _id } };
  return `${JSON.stringify(action)}\n${JSON.stringify(toEcs(record))}\n`;
}

function toEcs({ event, prevHash, eventHash }: SiemRecord): object {
  const { type, outcome } = words[outcomeOf(event)];
  const rules = rulesOf(event);
  return stated({
    '@timestamp': event.occurred_at,
    ecs: { version: '8.11.0' },
    event: stated({
      id: event.id,
      kind: 'event',
      category: ['iam'],
      type,
      action: event.type === 'decision' ? (event.tool ?? event.type) : event.type,
      outcome,
      reason: event.reason_code,
      dataset: 'sallyport.evidence',
      provider: event.source,
      sequence: event.position,
      hash: eventHash,
    }),
    observer: { name: product.name, vendor: product.vendor, version: product.version },
    organization: { id: event.tenant },
    user: event.user_id === undefined ? undefined : { id: event.user_id },
    rule: rules.length === 0 ? undefined : { name: rules },
    labels: stated({
      chain_id: event.chain_id,
      agent_id: event.agent_id,
      tool: event.tool,
      resource: event.resource,
      decision: event.decision,
      prev_hash: prevHash,
    }),
    sallyport: { type: event.type, seq: event.seq, data: event.data },
  });
}
