import type { JsonObject } from '../../base/json.ts';
import { csvCell, markdownText } from '../list-text.ts';

/** The part of an event that a list shows. */
export interface ListedEvent {
  readonly position: number;
  readonly occurred_at: string;
  readonly type: string;
  readonly chain_id: string;
  readonly seq: number;
  readonly id: string;
  readonly source: string;
  readonly prev_hash: string;
  readonly event_hash: string;
  readonly data: JsonObject;
  readonly [member: string]: unknown;
}

export interface ListedChain {
  readonly chain_id: string;
  readonly length: number;
  readonly verified: number;
  readonly ok: boolean;
}

export interface ListedTrail {
  readonly tenant: string;
  readonly created_at: string;
  readonly filters: Readonly<Record<string, string>>;
  readonly events: readonly ListedEvent[];
  readonly chains: readonly ListedChain[];
}

const columns = [
  'position',
  'occurred_at',
  'type',
  'by',
  'chain_id',
  'seq',
  'id',
  'source',
  'agent_id',
  'user_id',
  'tool',
  'decision',
  'reason_code',
  'prev_hash',
  'event_hash',
  'chain_ok',
  'data',
] as const;

/** Formats a row for each event (RFC 4180). */
export function csvTrail({ events, chains }: ListedTrail): string {
  const intact = new Map(chains.map(({ chain_id, ok }) => [chain_id, ok]));
  const rows = events.map((event) => {
    const more = {
      by: event.data.by,
      chain_ok: intact.get(event.chain_id),
      data: JSON.stringify(event.data),
    };
    const values: Readonly<Record<string, unknown>> = { ...event, ...more };
    return columns.map((name) => csvCell(String(values[name] ?? ''))).join(',');
  });
  return [columns.join(','), ...rows].map((row) => `${row}\r\n`).join('');
}

export function markdownTrail({
  tenant,
  created_at,
  filters,
  events,
  chains,
}: ListedTrail): string {
  const given = Object.entries(filters).map(([name, value]) => `${name} = ${markdownText(value)}`);
  const lines = [
    `# Audit trail of ${markdownText(tenant)}`,
    '',
    `- Exported: ${created_at}`,
    `- Events: ${events.length}${given.length === 0 ? '' : `, of ${given.join(', ')}`}`,
    '',
    table(['Chain', 'Length', 'Verified', 'Intact']),
    ...chains.map(({ chain_id, length, verified, ok }) =>
      row([chain_id, length, verified, ok ? 'yes' : 'NO']),
    ),
    '',
    table(['#', 'When', 'Type', 'By', 'Agent', 'Tool', 'Decision', 'Hash']),
    ...events.map(({ position, occurred_at, type, data, event_hash, ...more }) =>
      row([
        position,
        occurred_at,
        type,
        data.by,
        more.agent_id,
        more.tool,
        more.decision,
        event_hash,
      ]),
    ),
  ];
  return lines.map((line) => `${line}\n`).join('');
}

function table(names: readonly string[]): string {
  return `${row(names)}\n|${' --- |'.repeat(names.length)}`;
}

function row(values: readonly unknown[]): string {
  return `| ${values.map((value) => markdownText(String(value ?? ''))).join(' | ')} |`;
}
