import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import type { Services } from '../../control-plane/core/services.ts';
import { evidenceStats } from '../../control-plane/evidence/stats.ts';
import { writeCursor } from '../../control-plane/ledger/reading/cursor.ts';
import { listEvents } from '../../control-plane/ledger/reading/list-events.ts';
import { generateSigningKey } from '../../shared/crypto/signing-key.ts';
import { seeded } from '../support/base/seeded.ts';
import { type BigLedger, makeBigLedger } from '../support/ledger/big-ledger.ts';
import { openLedger, signingKeysOf, type TestLedger } from '../support/ledger/ledger.ts';
import { freshDatabase, startPostgres } from '../support/programs/postgres.ts';
import { benchFanOut } from './fan-out.ts';
import type { BenchRow } from './row.ts';

const tenants = 20;
/** Number of rows. Set `LEDGER_ROWS=200000` for a quick run. */
const rows = Number(process.env.LEDGER_ROWS ?? 2_000_000);
const pagesPerFilter = 300;
const warmUps = 30;
const goalMs = 10;

const vault = {
  mac: (purpose: string, data: string) => createHmac('sha256', purpose).update(data).digest('hex'),
} as Services['vault'];

/** Measures reads from a ledger with two million rows of twenty tenants. */
export async function benchLedger(): Promise<BenchRow[]> {
  const server = await startPostgres();
  const { url } = await freshDatabase(server.url);
  const key = generateSigningKey();
  const ledger = await openLedger({ databaseUrl: url, signingKeys: signingKeysOf(key) });
  try {
    const startedAt = performance.now();
    const big = await makeBigLedger(ledger.store.pool, { tenants, rows, key, textBytes: 1_000 });
    const seconds = (performance.now() - startedAt) / 1_000;
    console.error(`made ${rows} rows over ${tenants} tenants in ${seconds.toFixed(0)} s`);
    return [
      ...(await pages(ledger, big)),
      ...(await stats(ledger)),
      await verifying(ledger, big),
      ...(await benchFanOut()),
    ];
  } finally {
    await ledger.close();
    await server.stop();
  }
}

async function pages({ store: { pool } }: TestLedger, big: BigLedger): Promise<BenchRow[]> {
  const random = seeded(1);
  const timeAt = (part: number) =>
    new Date(big.startMs + Math.floor(big.rowsPerTenant * part) * big.stepMs).toISOString();
  const of = (name: string, count: number) => `${name}${Math.floor(random() ** 2 * count)}`;
  const filters: Readonly<Record<string, () => Readonly<Record<string, string>>>> = {
    none: () => ({}),
    chain_id: () => ({ chain_id: of('agent:', 40) }),
    agent_id: () => ({ agent_id: of('', 40) }),
    tool: () => ({ tool: of('mcp.payments.tool_', 60) }),
    decision: () => ({ decision: 'deny' }),
    reason_code: () => ({ reason_code: of('rule.deny_', 30) }),
    'reason_code, rare': () => ({ reason_code: 'rule.rare' }),
    type: () => ({ type: 'approval.decided' }),
    from: () => ({ from: timeAt(random()) }),
    'from and to, a day': () => {
      const at = random();
      return { from: timeAt(at), to: timeAt(at + 1 / 180) };
    },
    'tool and decision': () => ({ tool: of('mcp.payments.tool_', 60), decision: 'deny' }),
  };
  const found: BenchRow[] = [];
  for (const [name, filter] of Object.entries(filters)) {
    const times: number[] = [];
    for (let page = 0; page < pagesPerFilter + warmUps; page++) {
      const tenantId = big.tenants[page % tenants] ?? '';
      // Reads half of the pages from the beginning, and the others from random positions.
      const position = page % 2 === 0 ? 0 : Math.floor(random() * big.rowsPerTenant);
      const cursor = writeCursor(vault, tenantId, { position, chainId: '', seq: 0 });
      const asked = { ...filter(), cursor, limit: 100 };
      const startedAt = performance.now();
      const { events } = await listEvents({ pool, vault }, tenantId, asked);
      if (page >= warmUps) times.push(performance.now() - startedAt);
      for (const event of events) assert.ok(event.tenant === tenantId && event.position > position);
    }
    found.push(rowOf(`ledger, page of 100 by ${name}, p99`, times));
  }
  return found;
}

async function stats({ store: { pool } }: TestLedger): Promise<BenchRow[]> {
  const found: BenchRow[] = [];
  for (const group_by of ['day', 'agent', 'tool'] as const) {
    const times: number[] = [];
    for (let round = 0; round < 12; round++) {
      const startedAt = performance.now();
      const { totals } = await evidenceStats({ pool }, `big_${round + 1}`, { group_by });
      if (round >= 2) times.push(performance.now() - startedAt);
      assert.equal(
        totals.reduce((sum, { events }) => sum + events, 0),
        Math.ceil(rows / tenants),
      );
    }
    const row = rowOf(`ledger, stats by ${group_by} of one tenant, p99`, times);
    found.push({ ...row, baseline: 0, baselineName: 'no goal', ratio: 0 });
  }
  return found;
}

async function verifying(ledger: TestLedger, big: BigLedger): Promise<BenchRow> {
  const rates: number[] = [];
  for (const tenantId of big.tenants.slice(0, 6)) {
    const startedAt = performance.now();
    const report = await ledger.verify(tenantId);
    assert.equal(report.ok, true);
    assert.equal(report.events, big.rowsPerTenant);
    rates.push(report.events / ((performance.now() - startedAt) / 1_000));
  }
  const sorted = rates.toSorted((a, b) => a - b);
  const median = sorted[Math.floor(sorted.length / 2)] ?? 0;
  return {
    row: 'ledger, verify, in 2 million rows',
    ours: median,
    baseline: 100_000,
    baselineName: 'goal',
    ratio: median / 100_000,
    unit: 'rows/s',
    spread: ((sorted.at(-1) ?? 0) - (sorted[0] ?? 0)) / 2 / median,
  };
}

function rowOf(row: string, times: readonly number[]): BenchRow {
  const sorted = times.toSorted((a, b) => a - b);
  const at = (part: number) =>
    sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0;
  const p99 = at(0.99) * 1_000;
  return {
    row: `${row} (p50 ${(at(0.5) * 1_000).toFixed(0)} µs)`,
    ours: p99,
    baseline: goalMs * 1_000,
    baselineName: 'goal, at most',
    ratio: p99 / (goalMs * 1_000),
    unit: 'µs',
    spread: 0,
  };
}
