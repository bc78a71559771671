import { createHmac } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Services } from '../../../../control-plane/core/services.ts';
import { readTrail } from '../../../../control-plane/evidence/audit/trail.ts';
import { eventFilter } from '../../../../control-plane/ledger/reading/event-filter.ts';
import type { EventsRead } from '../../../../control-plane/ledger/reading/event-rows.ts';
import { readEvents } from '../../../../control-plane/ledger/reading/list-events.ts';
import type { EvidenceFilters } from '../../../../shared/contract/evidence/evidence.ts';
import { generateSigningKey } from '../../../../shared/crypto/signing-key.ts';
import { touchedRows } from '../../../support/control-plane/touched-rows.ts';
import { type BigLedger, makeBigLedger } from '../../../support/ledger/big-ledger.ts';
import { openLedger, signingKeysOf, type TestLedger } from '../../../support/ledger/ledger.ts';
import { freshDatabase } from '../../../support/programs/postgres.ts';

const rows = 24_000;
const limit = 101;
/** Sufficient for the rows of one page and the rows that a binary search reads. */
const touchedMax = 400;
/** Higher, because the search finds the start of a time range only to within a batch of 500 rows. */
const touchedFromMax = 800;
/** Higher, because a narrow time range is read completely. */
const touchedByTimeMax = 1_600;

let database: Awaited<ReturnType<typeof freshDatabase>>;
let ledger: TestLedger;
let big: BigLedger;

beforeAll(async () => {
  database = await freshDatabase();
  const key = generateSigningKey();
  ledger = await openLedger({ databaseUrl: database.url, signingKeys: signingKeysOf(key) });
  big = await makeBigLedger(ledger.store.pool, { tenants: 3, rows, key, textBytes: 460 });
}, 120_000);
afterAll(async () => {
  await ledger.close();
  await database.drop();
});

const vault = {
  mac: (purpose: string, data: string) => createHmac('sha256', purpose).update(data).digest('hex'),
} as Services['vault'];

const timeAt = (part: number) =>
  new Date(big.startMs + Math.floor(big.rowsPerTenant * part) * big.stepMs).toISOString();

const filters: readonly [string, () => EvidenceFilters][] = [
  ['no filter', () => ({})],
  ['chain_id', () => ({ chain_id: 'agent:3' })],
  ['chain_id with few events', () => ({ chain_id: 'policies:default' })],
  ['agent_id', () => ({ agent_id: '3' })],
  ['tool', () => ({ tool: 'mcp.payments.tool_5' })],
  ['decision', () => ({ decision: 'deny' })],
  ['decision without events', () => ({ decision: 'warn' })],
  ['reason_code', () => ({ reason_code: 'rule.deny_3' })],
  ['reason_code with few events', () => ({ reason_code: 'rule.rare' })],
  ['type', () => ({ type: 'decision' })],
  ['type with few events', () => ({ type: 'approval.decided' })],
  ['from, early', () => ({ from: timeAt(0.1) })],
  ['from, well before the end', () => ({ from: timeAt(0.85) })],
  ['from, late', () => ({ from: timeAt(0.99) })],
  ['from, after all events', () => ({ from: timeAt(2) })],
  ['to, before all events', () => ({ to: timeAt(-0.1) })],
  ['a narrow range of from and to', () => ({ from: timeAt(0.5), to: timeAt(0.503) })],
  ['chain_id and from', () => ({ chain_id: 'agent:3', from: timeAt(0.9) })],
  ['chain_id, from and to', () => ({ chain_id: 'agent:3', from: timeAt(0.5), to: timeAt(0.503) })],
  ['tool and decision', () => ({ tool: 'mcp.payments.tool_5', decision: 'deny' })],
  ['agent_id and decision', () => ({ agent_id: '3', decision: 'deny' })],
  ['tool and from', () => ({ tool: 'mcp.payments.tool_5', from: timeAt(0.9) })],
  [
    'agent_id and a narrow time range',
    () => ({ agent_id: '3', from: timeAt(0.5), to: timeAt(0.503) }),
  ],
];

/** Pairs of filters. At most the rows that match the more selective filter are read. */
const combined: readonly [string, EvidenceFilters][] = [
  ['agent_id and tool', { agent_id: '30', tool: 'mcp.payments.tool_50' }],
  ['agent_id and decision', { agent_id: '30', decision: 'deny' }],
  ['tool and decision', { tool: 'mcp.payments.tool_50', decision: 'deny' }],
  ['chain_id and reason_code', { chain_id: 'agent:30', reason_code: 'rule.rare' }],
  ['type and agent_id without events', { type: 'policy.published', agent_id: '3' }],
];

async function touchedBy(read: (pool: Services['pool']) => Promise<unknown>) {
  const seen = await touchedRows(ledger.store.pool, read);
  expect(seen.statements).toBeGreaterThan(0);
  // Every row is found with an index that begins with the tenant.
  expect(seen.scansOfAll).toEqual([]);
  return seen;
}

function touchedAtMost({ from, to }: EvidenceFilters): number {
  if (to !== undefined) return touchedByTimeMax;
  return from === undefined ? touchedMax : touchedFromMax;
}

const readOf = (filter: EvidenceFilters, position: number): EventsRead => ({
  filter: eventFilter(filter),
  after: { position, seqIn: () => undefined },
  limit,
});

describe('reading a page of events from a large ledger', () => {
  it('is tested on ledgers that pass verification', async () => {
    for (const tenantId of big.tenants)
      expect(await ledger.verify(tenantId)).toMatchObject({ ok: true, events: rows / 3 });
  });

  it.each(filters)(
    'touches only a few more rows than the page contains, at any cursor (filter: %s)',
    async (_name, filter) => {
      for (const part of [0, 0.5, 0.98]) {
        const position = Math.floor(big.rowsPerTenant * part);
        const { touched, sorted } = await touchedBy((pool) =>
          readEvents({ pool, vault }, 'big_2', readOf(filter(), position)),
        );
        const max = touchedAtMost(filter());
        expect(touched).toBeLessThanOrEqual(max);
        expect(sorted).toBeLessThanOrEqual(max);
      }
    },
  );

  it('touches few rows if `to` is the only filter; only the last page also reads the rows after `to`', async () => {
    const to = timeAt(0.3);
    const touchedFrom = async (part: number) => {
      const position = Math.floor(big.rowsPerTenant * part);
      const read = readOf({ to }, position);
      return (await touchedBy((pool) => readEvents({ pool, vault }, 'big_2', read))).touched;
    };
    expect(await touchedFrom(0)).toBeLessThanOrEqual(touchedMax);
    expect(await touchedFrom(0.2)).toBeLessThanOrEqual(touchedMax);
    expect(await touchedFrom(0.5)).toBeLessThanOrEqual(big.rowsPerTenant * 0.55);
  });

  it.each(combined)(
    'touches at most the rows that match the more selective of two filters: %s',
    async (_name, filter) => {
      const { touched } = await touchedBy((pool) =>
        readEvents({ pool, vault }, 'big_2', readOf(filter, 0)),
      );
      expect(touched).toBeLessThanOrEqual(big.rowsPerTenant / 5);
    },
  );

  it('touches no rows of agent traffic for a page of the audit trail', async () => {
    for (const filter of [{}, { type: 'key.created' }]) {
      const { touched } = await touchedBy((pool) =>
        readTrail({ pool, vault }, 'big_2', readOf(filter, 0)),
      );
      expect(touched).toBeLessThanOrEqual(touchedMax);
    }
  });
});
