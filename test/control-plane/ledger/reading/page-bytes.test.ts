import { createHmac } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Services } from '../../../../control-plane/core/services.ts';
import { readRows } from '../../../../control-plane/ledger/export/rows.ts';
import { eventFilter } from '../../../../control-plane/ledger/reading/event-filter.ts';
import { follow } from '../../../../control-plane/ledger/reading/follow.ts';
import { listEvents } from '../../../../control-plane/ledger/reading/list-events.ts';
import { readPages } from '../../../../control-plane/ledger/reading/read-ledger.ts';
import { TenantTail } from '../../../../control-plane/ledger/reading/tenant-tail.ts';
import { silentLog } from '../../../../shared/base/log.ts';
import * as contract from '../../../../shared/contract/evidence/evidence.ts';
import { anEvent, openLedger, type TestLedger } from '../../../support/ledger/ledger.ts';
import { freshDatabase } from '../../../support/programs/postgres.ts';

const count = 12;
const mebibyte = 1_048_576;
/** The limit of a page is 4 MiB, but the row that reaches the limit still belongs to the page. */
const pageMax = 5 * mebibyte;
const timeOf = (minute: number) => new Date(Date.UTC(2026, 6, 1, 9, minute)).toISOString();
const vault = {
  mac: (purpose: string, data: string) => createHmac('sha256', purpose).update(data).digest('hex'),
} as Services['vault'];

let database: Awaited<ReturnType<typeof freshDatabase>>;
let ledger: TestLedger;
let deps: Pick<Services, 'pool' | 'vault' | 'log'>;
beforeAll(async () => {
  database = await freshDatabase();
  ledger = await openLedger({ databaseUrl: database.url });
  deps = { pool: ledger.store.pool, vault, log: silentLog };
  // The database compresses this text; in memory, it has its full length.
  const text = 'x'.repeat(800_000);
  for (let n = 0; n < count; n++) {
    // The last three arrived late: they occurred before the others.
    const occurred_at = timeOf(n < count - 3 ? 10 + n : n - count + 3);
    await ledger.seal('t', anEvent({ occurred_at, data: { text } }));
  }
}, 120_000);
afterAll(async () => {
  await ledger?.close();
  await database?.drop();
});

const everyPosition = Array.from({ length: count }, (_, index) => index + 1);
const bytesOf = (texts: readonly string[]) =>
  texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);

it.each([
  ['none', {}, everyPosition],
  ['chain_id', { chain_id: 'agent:7' }, everyPosition],
  // The first pages contain the events that arrived in order, and the last pages contain the late events.
  ['to', { to: timeOf(17) }, [1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12]],
])(
  'each page of large events is smaller than the size limit, and no matching event is omitted (filter: %s)',
  async (_name, filters, positions) => {
    const seen: number[] = [];
    let pages = 0;
    for (let cursor: string | null | undefined; cursor !== null; pages++) {
      const query = contract.listEvidenceEvents.query?.parse({
        ...filters,
        limit: '100',
        ...(cursor === undefined ? {} : { cursor }),
      });
      const page = await listEvents(deps, 't', query ?? expect.fail('no query'));
      expect(page.events.length).toBeGreaterThan(0);
      expect(bytesOf(page.events.map((event) => JSON.stringify(event)))).toBeLessThan(pageMax);
      seen.push(...page.events.map(({ position }) => position));
      cursor = page.next_cursor;
    }
    expect(seen).toEqual(positions);
    expect(pages).toBeGreaterThan(1);
  },
);

it('an export and a verification of large events hold at most one page in memory', async () => {
  const exported: number[] = [];
  for await (const rows of readRows(deps.pool, 't', { filters: {}, upTo: count })) {
    expect(bytesOf(rows.map(({ canonical }) => canonical))).toBeLessThan(pageMax);
    exported.push(...rows.map(({ position }) => position));
  }
  expect(exported).toEqual(everyPosition);
  const verified: number[] = [];
  const anchors: number[] = [];
  for await (const page of readPages(deps.pool, 't', { after: 0, upTo: count })) {
    expect(bytesOf(page.rows.map(({ canonical }) => canonical))).toBeLessThan(pageMax);
    verified.push(...page.rows.map(({ position }) => position));
    anchors.push(...page.anchors.map(({ position }) => position));
  }
  expect(verified).toEqual(everyPosition);
  expect(anchors).toEqual(everyPosition);
  expect(await ledger.verify('t')).toMatchObject({ ok: true, events: count });
});

it('a slow client receives all large events, a few at a time', async () => {
  const tail = new TenantTail('t', count, { ...deps, pollMs: 60_000 });
  const done = new AbortController();
  const following = {
    tenantId: 't',
    tail,
    position: 0,
    filter: eventFilter({}),
    signal: done.signal,
    aliveMs: 60_000,
    permittedMs: 60_000,
    isStillPermitted: async () => true,
  };
  let messages = 0;
  for await (const chunk of follow(deps, following)) {
    expect(Buffer.byteLength(chunk)).toBeLessThan(3 * mebibyte);
    messages += String(chunk).split('\ndata:').length - 1;
    if (messages === count) done.abort();
  }
  await tail.close();
  expect(messages).toBe(count);
});
