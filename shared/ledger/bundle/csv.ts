import { csvCell } from '../list-text.ts';
import type { SiemRecord } from '../siem/record.ts';

const columns = [
  'position',
  'chain_id',
  'seq',
  'id',
  'occurred_at',
  'type',
  'source',
  'agent_id',
  'user_id',
  'tool',
  'resource',
  'decision',
  'reason_code',
  'prev_hash',
  'event_hash',
  'data',
] as const;

export const csvHead = `${columns.join(',')}\r\n`;

/** A row as RFC 4180 has it. */
export function csvRow({ event, prevHash, eventHash }: SiemRecord): string {
  const values = { ...event, prev_hash: prevHash, event_hash: eventHash };
  const cells = columns.map((name) =>
    csvCell(name === 'data' ? JSON.stringify(event.data) : String(values[name] ?? '')),
  );
  return `${cells.join(',')}\r\n`;
}
