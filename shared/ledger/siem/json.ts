import type { SiemRecord } from './record.ts';

/** The event as the API shows it, one object a line. */
export function toJsonLine({ event, prevHash, eventHash }: SiemRecord): string {
  return `${JSON.stringify({ ...event, prev_hash: prevHash, event_hash: eventHash })}\n`;
}
