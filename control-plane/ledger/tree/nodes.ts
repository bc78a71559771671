import { type LeafRange, leafOf } from '../../../shared/ledger/merkle.ts';
import {
  fold,
  type NodeSpan,
  nodesAt,
  rangeRoot,
  spansOf,
  tileWidth,
} from '../../../shared/ledger/tiles.ts';
import type { Queryable } from '../sealing/read-state.ts';

/**
 * Maximum number of whole tiles that are read and hashed together, so that their 4,096 hashes block
 * the event loop only briefly.
 */
const tilesMax = 16;

/** Thrown if the database lacks hashes of a tree because rows are missing. */
export class MissingNodes extends Error {
  override readonly name = 'MissingNodes';
}

/**
 * Stores the roots of the whole tiles in the first `size` leaves. Concurrent calls are harmless,
 * because the root of a whole tile never changes.
 */
export async function fillNodes(
  connection: Queryable,
  tenantId: string,
  size: number,
): Promise<void> {
  for (let level = 1; nodesAt(level, size) > 0; level++) {
    const wanted = nodesAt(level, size);
    for (let from = await storedNodes(connection, tenantId, level); from < wanted; ) {
      const to = Math.min(from + tilesMax, wanted);
      const below = { level: level - 1, start: from * tileWidth, end: to * tileWidth };
      const hashes = await readSpan(connection, tenantId, below);
      const roots = Array.from({ length: to - from }, (_, at) =>
        fold(hashes.slice(at * tileWidth, (at + 1) * tileWidth)).toString('hex'),
      );
      await connection.query(
        `INSERT INTO evidence_node (tenant_id, level, index, hash)
         SELECT $1, $2, $3::bigint + at - 1, hash
           FROM unnest($4::text[]) WITH ORDINALITY AS node(hash, at) ON CONFLICT DO NOTHING`,
        [tenantId, level, from, roots],
      );
      from = to;
    }
  }
}

async function storedNodes(
  connection: Queryable,
  tenantId: string,
  level: number,
): Promise<number> {
  const { rows } = await connection.query<{ count: string }>(
    `SELECT coalesce(max(index) + 1, 0) AS count FROM evidence_node
      WHERE tenant_id = $1 AND level = $2`,
    [tenantId, level],
  );
  return Number(rows[0]?.count ?? 0);
}

/** Returns all hashes of a span, in order; throws `MissingNodes`. */
export async function readSpan(
  connection: Queryable,
  tenantId: string,
  span: NodeSpan,
): Promise<readonly Buffer[]> {
  const read = await readSpans(connection, tenantId, [span]);
  return read(span);
}

/** Returns all event hashes of a range of rows, in order; throws `MissingNodes`. */
export async function readEventHashes(
  connection: Queryable,
  tenantId: string,
  { start, end }: LeafRange,
): Promise<readonly string[]> {
  const { rows } = await connection.query<{ event_hash: string }>(
    `SELECT event_hash FROM evidence_row
      WHERE tenant_id = $1 AND position > $2 AND position <= $3 ORDER BY position`,
    [tenantId, start, end],
  );
  if (rows.length === end - start) return rows.map((row) => row.event_hash);
  throw new MissingNodes(`rows from position ${start + 1} to ${end} are missing`);
}

/** Returns the roots of subtrees, in the requested order. Makes one query per level. */
export async function readRoots(
  connection: Queryable,
  tenantId: string,
  ranges: readonly LeafRange[],
): Promise<readonly Buffer[]> {
  const read = await readSpans(connection, tenantId, ranges.flatMap(spansOf));
  return ranges.map((range) => rangeRoot(range, read));
}

type SpanReader = (span: NodeSpan) => readonly Buffer[];

async function readSpans(
  connection: Queryable,
  tenantId: string,
  spans: readonly NodeSpan[],
): Promise<SpanReader> {
  const levels = new Map<number, ReadonlyMap<number, Buffer>>();
  for (const [level, there] of Map.groupBy(spans, (span) => span.level)) {
    levels.set(level, await readLevel(connection, tenantId, level, there));
  }
  return ({ level, start, end }) =>
    Array.from({ length: end - start }, (_, at) => {
      const found = levels.get(level)?.get(start + at);
      if (found !== undefined) return found;
      throw new MissingNodes(`hash ${start + at} of level ${level} is missing`);
    });
}

async function readLevel(
  connection: Queryable,
  tenantId: string,
  level: number,
  spans: readonly NodeSpan[],
): Promise<ReadonlyMap<number, Buffer>> {
  const starts = spans.map(({ start }) => start);
  const ends = spans.map(({ end }) => end);
  const values = [tenantId, starts, ends, ...(level === 0 ? [] : [level])];
  const text = level === 0 ? leavesStatement : nodesStatement;
  const { rows } = await connection.query<[string, string]>({ text, values, rowMode: 'array' });
  return new Map(
    rows.map(([index, value]) => [
      Number(index),
      level === 0 ? leafOf(value) : Buffer.from(value, 'hex'),
    ]),
  );
}

const leavesStatement = `
SELECT row.position - 1, row.event_hash
  FROM unnest($2::bigint[], $3::bigint[]) AS span(low, high)
  JOIN evidence_row AS row
    ON row.tenant_id = $1 AND row.position > span.low AND row.position <= span.high`;

const nodesStatement = `
SELECT node.index, node.hash
  FROM unnest($2::bigint[], $3::bigint[]) AS span(low, high)
  JOIN evidence_node AS node ON node.tenant_id = $1 AND node.level = $4
   AND node.index >= span.low AND node.index < span.high`;
