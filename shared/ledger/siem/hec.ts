import { gatewayName } from './product.ts';
import { outcomeOf, type SiemRecord, stated } from './record.ts';

/**
 * Formats an event for an HTTP event collector, which accepts concatenated objects, not an array.
 * `fields` are indexed and may have only text and number values.
 */
export function toHecEvent({ event, prevHash, eventHash }: SiemRecord): string {
  return `${JSON.stringify({
    time: Date.parse(event.occurred_at) / 1_000,
    host: gatewayName,
    source: 'sallyport',
    sourcetype: 'sallyport:evidence',
    event: { ...event, prev_hash: prevHash, event_hash: eventHash },
    fields: stated({
      type: event.type,
      outcome: outcomeOf(event),
      decision: event.decision,
      reason_code: event.reason_code,
      agent_id: event.agent_id,
      tool: event.tool,
      chain_id: event.chain_id,
      position: event.position,
    }),
  })}\n`;
}
