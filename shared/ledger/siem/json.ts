import type { SiemRecord } from './record.ts';

/** Formats an event as in the API, as one line. */
export function toJsonLine({ event, prevHash, eventHash }: SiemRecord): string {
  return `${JSON.stringify({ ...event, prev_hash: prevHash, event_hash: eventHash })}\n`;
}
