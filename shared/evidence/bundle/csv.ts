import type { SiemRecord } from '../../siem/record.ts';

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
    cell(name === 'data' ? JSON.stringify(event.data) : String(values[name] ?? '')),
  );
  return `${cells.join(',')}\r\n`;
}

/** A spreadsheet takes a cell that begins so for a formula; agents choose some of these texts. */
const formula = /^[=+\-@\t\r\n＝＋－＠]/;

function cell(text: string): string {
  const inert = formula.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(inert) ? `"${inert.replaceAll('"', '""')}"` : inert;
}
