import { markdownText } from '../list-text.ts';
import type { SiemRecord } from '../siem/record.ts';
import type { ExportFilters } from './statement.ts';

interface MarkdownFacts {
  readonly tenant: string;
  readonly createdAt: string;
  readonly filters: ExportFilters;
  /** The checkpoint’s size and root (`sha256:<hex>`). */
  readonly size: number;
  readonly root: string;
}

const head = [
  '#',
  'When',
  'Type',
  'Agent',
  'User',
  'Tool',
  'Resource',
  'Decision',
  'Reason',
  'Hash',
];

export function markdownHead({ tenant, createdAt, filters, size, root }: MarkdownFacts): string {
  const given = Object.entries(filters).map(
    ([name, value]) => `${name} = ${markdownText(String(value))}`,
  );
  return [
    `# Evidence of ${markdownText(tenant)}`,
    '',
    `- Exported: ${createdAt}`,
    `- Events: ${given.length === 0 ? 'all' : given.join(', ')}`,
    `- Ledger: ${size} events, tree root ${root}`,
    '',
    `| ${head.join(' | ')} |`,
    `|${' --- |'.repeat(head.length)}`,
    '',
  ].join('\n');
}

export function markdownRow({ event, eventHash }: SiemRecord): string {
  const cells = [
    String(event.position),
    event.occurred_at,
    event.type,
    event.agent_id,
    event.user_id,
    event.tool,
    event.resource,
    event.decision,
    event.reason_code,
    eventHash,
  ];
  return `| ${cells.map((value) => markdownText(value ?? '')).join(' | ')} |\n`;
}
