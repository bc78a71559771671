import type { SiemRecord } from './record.ts';

/** The event as in the API, one object for each line. */
export function toJsonLine({ event, prevHash, eventHash }: SiemRecord): string {
  return `${JSON.stringify({ ...event, prev_hash: prevHash, event_hash: eventHash })}\n`;
}
