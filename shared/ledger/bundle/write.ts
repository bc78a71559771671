import { createHash } from 'node:crypto';
import type { PublicJwk, SigningKey } from '../../crypto/signing-key.ts';
import { csvCell, markdownText } from '../list-text.ts';
import { dialects, type SiemDialect } from '../siem/dialects.ts';
import type { SiemRecord } from '../siem/record.ts';
import {
  type BundleChain,
  type BundleEvent,
  bundleEnd,
  bundleMiddle,
  startLine,
} from './layout.ts';
import { type ExportFilters, type ExportFormat, signStatement } from './statement.ts';
import { writeTrailer } from './trailer.ts';

/** The events to export, and the state of the ledger from which they are exported. */
export interface ExportPlan {
  readonly tenant: string;
  readonly format: ExportFormat;
  readonly dialect?: SiemDialect | undefined;
  readonly createdAt: string;
  readonly filters: ExportFilters;
  readonly checkpoint: { readonly note: string; readonly size: number; readonly root: string };
  readonly keys: readonly PublicJwk[];
}

/** Pages are read in order; chains are read after all events. */
interface ExportSource {
  pages(): AsyncIterable<readonly BundleEvent[]>;
  chains(): AsyncIterable<readonly BundleChain[]>;
}

/**
 * Writes an export as a stream of parts in constant memory. A running hash covers the written
 * parts. The signature over this hash is the last part, so a truncated export is unsigned.
 */
export async function* writeExport(
  plan: ExportPlan,
  source: ExportSource,
  key: SigningKey,
): AsyncGenerator<Buffer> {
  const hash = createHash('sha256');
  let bytes = 0;
  let events = 0;
  const counted = {
    async *pages() {
      for await (const page of source.pages()) {
        events += page.length;
        yield page;
      }
    },
    chains: source.chains,
  };
  for await (const text of plan.format === 'json'
    ? bundleParts(plan, counted)
    : listParts(plan, counted)) {
    const part = Buffer.from(text);
    hash.update(part);
    bytes += part.length;
    yield part;
  }
  const { tenant, format, dialect, createdAt, filters, checkpoint, keys } = plan;
  const trailer = signStatement(
    {
      type: 'evidence-export',
      tenant,
      format,
      dialect,
      created_at: createdAt,
      filters,
      events,
      bytes,
      content_sha256: `sha256:${hash.digest('hex')}`,
      checkpoint: checkpoint.note,
      keys,
    },
    key,
  );
  yield Buffer.from(writeTrailer(trailer));
}

async function* bundleParts(
  { tenant, checkpoint }: ExportPlan,
  { pages, chains }: ExportSource,
): AsyncGenerator<string> {
  yield startLine({ tenant, size: checkpoint.size });
  yield* listLines(pages());
  yield `\n${bundleMiddle}`;
  yield* listLines(chains());
  yield `\n${bundleEnd}\n`;
}

async function* listLines(pages: AsyncIterable<readonly object[]>): AsyncGenerator<string> {
  let isFirst = true;
  for await (const page of pages) {
    if (page.length === 0) continue;
    const lines = page.map((item) => `\n${JSON.stringify(item)}`).join(',');
    yield isFirst ? lines : `,${lines}`;
    isFirst = false;
  }
}

async function* listParts(
  plan: ExportPlan,
  { pages }: Pick<ExportSource, 'pages'>,
): AsyncGenerator<string> {
  const { head, write } = listWriter(plan);
  yield head;
  for await (const page of pages()) {
    if (page.length > 0) yield page.map((event) => write(toRecord(event))).join('');
  }
}

interface ListWriter {
  readonly head: string;
  readonly write: (record: SiemRecord) => string;
}

function listWriter({ format, dialect = 'json', ...plan }: ExportPlan): ListWriter {
  if (format === 'csv') return { head: csvHead, write: csvRow };
  if (format === 'siem') return { head: '', write: dialects[dialect].write };
  const { size, root } = plan.checkpoint;
  return { head: markdownHead({ ...plan, size, root }), write: markdownRow };
}

function toRecord({
  canonical,
  prev_hash: prevHash,
  event_hash: eventHash,
}: BundleEvent): SiemRecord {
  // Sealing wrote this text, so it has every member of an event.
  return { event: JSON.parse(canonical) as SiemRecord['event'], prevHash, eventHash };
}

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

const csvHead = `${columns.join(',')}\r\n`;

/** Formats a row (RFC 4180). */
function csvRow({ event, prevHash, eventHash }: SiemRecord): string {
  const values = { ...event, prev_hash: prevHash, event_hash: eventHash };
  const cells = columns.map((name) =>
    csvCell(name === 'data' ? JSON.stringify(event.data) : String(values[name] ?? '')),
  );
  return `${cells.join(',')}\r\n`;
}

interface MarkdownFacts {
  readonly tenant: string;
  readonly createdAt: string;
  readonly filters: ExportFilters;
  /** Size of the checkpoint's tree; `root` is its root hash (`sha256:<hex>`). */
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

function markdownHead({ tenant, createdAt, filters, size, root }: MarkdownFacts): string {
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

function markdownRow({ event, eventHash }: SiemRecord): string {
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
