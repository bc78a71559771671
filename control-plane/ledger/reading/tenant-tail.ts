import { setTimeout as pause } from 'node:timers/promises';
import type { Platform } from '../../platform/platform.ts';
import type { FilteredColumns } from './event-filter.ts';
import { toRecord } from './list-events.ts';
import { eventMessage } from './sse.ts';

/** A row's message for followers, and the columns that filters compare. */
interface TailRow {
  readonly position: number;
  readonly columns: FilteredColumns;
  readonly message: Buffer;
}

/** Rows that were read together: a stretch of the ledger. */
export interface Segment {
  readonly after: number;
  readonly upTo: number;
  readonly rows: readonly TailRow[];
  /** All messages, concatenated. */
  readonly messages: Buffer;
}

export type TailDeps = Pick<Platform, 'pool' | 'vault' | 'log'> & {
  readonly pollMs: number;
};

const pageRows = 500;
/**
 * A page ends with the row that reaches this size. The limit is needed because a single event can
 * have a megabyte.
 */
const pageBytesMax = 4 * 1_048_576;
/** Pause between two reads, so that events sealed meanwhile are sent together. */
const paceMs = 20;
const keptBytesMax = 8 * 1_048_576;

/**
 * The newest stretch of one tenant's ledger, read once for all followers. A slow follower reads
 * older rows from the database, so it delays nobody and memory stays bounded.
 */
export class TenantTail {
  readonly #tenantId: string;
  readonly #deps: TailDeps;
  readonly #waiting = new Set<() => void>();
  readonly #poll: NodeJS.Timeout;
  #segments: Segment[] = [];
  #bytes = 0;
  #tip: number;
  #isAsked = false;
  #reading: Promise<void> | undefined;
  #isClosed = false;

  constructor(tenantId: string, tip: number, deps: TailDeps) {
    this.#tenantId = tenantId;
    this.#tip = tip;
    this.#deps = deps;
    this.#poll = setInterval(() => this.nudge(), deps.pollMs).unref();
  }

  /**
   * Returns the segments after a position, or undefined if some of them are no longer in memory.
   */
  after(position: number): readonly Segment[] | undefined {
    const first = this.#segments[0]?.after ?? this.#tip;
    if (position < first) return undefined;
    return this.#segments.filter(({ upTo }) => upTo > position);
  }

  /** Starts to read new rows, at once or after the read that is running. */
  nudge(): void {
    this.#isAsked = true;
    this.#reading ??= this.#read();
  }

  /** Resolves when more rows arrive, the signal aborts, or `ms` milliseconds have passed. */
  async more(ms: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted || this.#isClosed) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, ms);
    const onAbort = () => resolve();
    this.#waiting.add(resolve);
    signal.addEventListener('abort', onAbort);
    await promise;
    clearTimeout(timer);
    this.#waiting.delete(resolve);
    signal.removeEventListener('abort', onAbort);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#poll);
    this.#wake();
    await this.#reading;
  }

  async #read(): Promise<void> {
    while (this.#isAsked && !this.#isClosed) {
      this.#isAsked = false;
      try {
        while ((await this.#readPage()) && !this.#isClosed);
      } catch (err) {
        this.#deps.log.warn(
          { err, tenantId: this.#tenantId },
          'could not read new rows for followers',
        );
      }
      await pause(paceMs);
    }
    this.#reading = undefined;
  }

  /** Reads one page. Returns whether there may be another page. */
  async #readPage(): Promise<boolean> {
    const rows = await readRows(this.#deps, this.#tenantId, this.#tip);
    const last = rows.at(-1);
    if (last === undefined) return false;
    const messages = Buffer.concat(rows.map(({ message }) => message));
    this.#keep({ after: this.#tip, upTo: last.position, rows, messages });
    this.#tip = last.position;
    this.#wake();
    return rows.length === pageRows || messages.length >= pageBytesMax;
  }

  #keep(segment: Segment): void {
    this.#segments.push(segment);
    this.#bytes += segment.messages.length;
    while (this.#bytes > keptBytesMax && this.#segments.length > 1) {
      this.#bytes -= this.#segments.shift()?.messages.length ?? 0;
    }
  }

  #wake(): void {
    for (const resolve of this.#waiting) resolve();
  }
}

type Row = [
  ...place: [position: string, chainId: string, seq: string],
  ...sealed: [prevHash: string, eventHash: string, canonical: string, sealedAt: Date],
  type: string,
  ...nullable: [string | null, string | null, string | null, string | null],
  occurredAtMs: string,
];

async function readRows(
  { pool, vault }: TailDeps,
  tenantId: string,
  after: number,
): Promise<readonly TailRow[]> {
  const { rows } = await pool.query<Row>({
    text: `SELECT position, chain_id, seq, prev_hash, event_hash, canonical, sealed_at, type,
                  agent_id, tool, decision, reason_code,
                  (extract(epoch FROM occurred_at) * 1000)::bigint
             FROM (SELECT *, sum(octet_length(canonical)) OVER (ORDER BY position)
                             - octet_length(canonical) AS bytes_before
                     FROM evidence_row WHERE tenant_id = $1 AND position > $2
                    ORDER BY position LIMIT ${pageRows}) AS page
            WHERE bytes_before < ${pageBytesMax} ORDER BY position`,
    values: [tenantId, after],
    rowMode: 'array',
  });
  return rows.map(([position, chainId, seq, prevHash, eventHash, canonical, sealedAt, ...rest]) => {
    const [type, agentId, tool, decision, reasonCode, occurredAtMs] = rest;
    const place = { tenantId, position: Number(position), chainId, seq: Number(seq) };
    const record = toRecord(vault, { ...place, prevHash, eventHash, canonical });
    return {
      position: place.position,
      columns: {
        chainId,
        type,
        agentId,
        tool,
        decision,
        reasonCode,
        occurredAtMs: Number(occurredAtMs),
      },
      message: Buffer.from(eventMessage({ ...record, sealed_at: sealedAt.toISOString() })),
    };
  });
}
