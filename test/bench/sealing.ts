import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { toSealable } from '../../control-plane/ledger/sealing/check-event.ts';
import {
  type LedgerState,
  type PreparedRow,
  prepareBatch,
  stateAfter,
} from '../../control-plane/ledger/sealing/prepare-batch.ts';
import { type EvidenceEvent, genesisHash } from '../../shared/ledger/event.ts';
import { Frontier } from '../../shared/ledger/merkle.ts';
import { anEvent, openLedger, type TestLedger } from '../support/ledger/ledger.ts';
import { freshDatabase, startPostgres } from '../support/programs/postgres.ts';
import { createRawTable, type Indexes, insertRaw } from './baselines/sealing-raw.ts';
import { type BenchRow, summarise } from './row.ts';

const rounds = 5;
const batchRows = 500;
const sustainedEvents = 30_000;
const singleEvents = 1_500;
const chains = 20;

/**
 * Compares sealing into one tenant's ledger with raw inserts of the same bytes on the same server.
 */
export async function benchSealing(): Promise<BenchRow[]> {
  const server = await startPostgres({ durable: true });
  const { url } = await freshDatabase(server.url);
  const ledger = await openLedger({ databaseUrl: url });
  try {
    await createRawTable(ledger.store.pool, 'all');
    await createRawTable(ledger.store.pool, 'key');
    const rows = [...(await sustained(ledger)), await single(ledger), ...(await verifying(ledger))];
    return rows;
  } finally {
    await ledger.close();
    await server.stop();
  }
}

async function sustained(ledger: TestLedger): Promise<BenchRow[]> {
  const raw = new RawRows();
  const rates = { ours: [] as number[], all: [] as number[], key: [] as number[] };
  for (let round = 0; round <= rounds; round++) {
    const events = eventsOf(sustainedEvents);
    const ours = await rateOf(sustainedEvents, () => ledger.sealAll('sustained', events));
    const all = await rateOf(sustainedEvents, () => insertAll(ledger, 'all', raw.next(events)));
    const key = await rateOf(sustainedEvents, () => insertAll(ledger, 'key', raw.next(events)));
    // The first round is the warm-up.
    if (round === 0) continue;
    rates.ours.push(ours);
    rates.all.push(all);
    rates.key.push(key);
  }
  const report = await ledger.verify('sustained');
  assert.equal(report.ok, true);
  assert.equal(report.events, (rounds + 1) * sustainedEvents);
  const row = 'ledger, sealing sustained, one tenant';
  return [
    rowOf(row, rates.ours, rates.all, { name: 'raw VALUES, same indexes', unit: 'events/s' }),
    rowOf(row, rates.ours, rates.key, { name: 'raw VALUES, primary key only', unit: 'events/s' }),
  ];
}

async function single(ledger: TestLedger): Promise<BenchRow> {
  const raw = new RawRows('single');
  const [ours, all]: [number[], number[]] = [[], []];
  for (let round = 0; round <= rounds; round++) {
    const events = eventsOf(singleEvents);
    const prepared = raw.next(events).flat();
    const sealRate = await rateOf(singleEvents, async () => {
      for (const event of events) await ledger.seal('single', event);
    });
    const rawRate = await rateOf(singleEvents, async () => {
      for (const row of prepared) await insertRaw(ledger.store.pool, 'all', [row]);
    });
    if (round === 0) continue;
    ours.push(sealRate);
    all.push(rawRate);
  }
  assert.equal((await ledger.verify('single')).ok, true);
  return rowOf('ledger, one event alone, durable', ours, all, {
    name: 'one-row commit, same indexes',
    unit: 'events/s',
  });
}

async function verifying(ledger: TestLedger): Promise<BenchRow[]> {
  const texts = await ledger.store.pool.query<{ prev_hash: string; canonical: string }>(
    `SELECT prev_hash, canonical FROM evidence_row WHERE tenant_id = 'sustained' LIMIT 50000`,
  );
  const [ours, hashes]: [number[], number[]] = [[], []];
  for (let round = 0; round < rounds; round++) {
    let events = 0;
    const started = performance.now();
    const report = await ledger.verify('sustained');
    events = report.events;
    assert.equal(report.ok, true);
    ours.push((events / (performance.now() - started)) * 1_000);
    hashes.push(
      await rateOf(texts.rows.length, async () => {
        for (const { prev_hash, canonical } of texts.rows)
          hash('sha256', `${prev_hash}\n${canonical}`);
      }),
    );
  }
  return [
    rowOf('ledger, verify', ours, hashes, { name: 'SHA-256 of the same texts', unit: 'rows/s' }),
  ];
}

/** Prepares rows for the raw tables. Their positions continue from round to round. */
class RawRows {
  readonly #tenantId: string;
  #state: LedgerState;

  constructor(tenantId = 'raw') {
    this.#tenantId = tenantId;
    const beginning = { seq: 0, hash: genesisHash };
    this.#state = {
      position: 0,
      tree: new Frontier(),
      latestMs: 0,
      chains: { get: () => beginning },
    };
  }

  next(events: readonly EvidenceEvent[]): PreparedRow[][] {
    const pages: PreparedRow[][] = [];
    for (let at = 0; at < events.length; at += batchRows) {
      const page = events
        .slice(at, at + batchRows)
        .map((event) => toSealable(this.#tenantId, event));
      const batch = prepareBatch(this.#tenantId, this.#state, page);
      pages.push([...batch.rows]);
      this.#state = {
        ...stateAfter(this.#state, batch),
        chains: chainsAfter(this.#state, batch.moved),
      };
    }
    return pages;
  }
}

/**
 * Copies the heads of all chains to a flat map, so that the cost of a lookup does not grow with the
 * ledger.
 */
function chainsAfter(
  state: LedgerState,
  moved: ReadonlyMap<string, { seq: number; hash: string }>,
) {
  const heads = new Map(moved);
  for (let chain = 0; chain < chains; chain++) {
    const id = `agent:${chain}`;
    const head = heads.get(id) ?? state.chains.get(id);
    if (head !== undefined) heads.set(id, head);
  }
  return heads;
}

async function insertAll(
  ledger: TestLedger,
  indexes: Indexes,
  pages: PreparedRow[][],
): Promise<void> {
  for (const page of pages) await insertRaw(ledger.store.pool, indexes, page);
}

/** Returns decisions that have about a kilobyte each when they are sealed. */
function eventsOf(count: number): EvidenceEvent[] {
  const args = Object.fromEntries(
    Array.from({ length: 12 }, (_, at) => [`argument_${at + 10}`, 'string'.repeat(5)]),
  );
  return Array.from({ length: count }, (_, index) =>
    anEvent({
      chain_id: `agent:${index % chains}`,
      agent_id: String(index % chains),
      tool: `mcp.payments.tool_${index % 50}`,
      reason_code: `policy.rule_${index % 9}`,
      data: { args, matched_rules: ['refunds/small'] },
    }),
  );
}

async function rateOf(count: number, work: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await work();
  return (count / (performance.now() - started)) * 1_000;
}

function rowOf(
  row: string,
  ours: readonly number[],
  baseline: readonly number[],
  { name, unit }: { readonly name: string; readonly unit: string },
): BenchRow {
  const [own, other] = [summarise(ours), summarise(baseline)];
  return {
    row,
    ours: own.median,
    baseline: other.median,
    baselineName: name,
    ratio: own.median / other.median,
    unit,
    spread: own.spread,
  };
}
