import { createHmac } from 'node:crypto';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Services } from '../../../control-plane/core/services.ts';
import { appendEvent } from '../../../control-plane/evidence/append-event.ts';
import { listEvents } from '../../../control-plane/ledger/reading/list-events.ts';
import type { Caller } from '../../../control-plane/platform/access/caller.ts';
import { systemClock } from '../../../shared/base/clock.ts';
import * as contract from '../../../shared/contract/evidence/evidence.ts';
import { canonicalJson } from '../../../shared/crypto/jcs.ts';
import { eventHash } from '../../../shared/ledger/canonical.ts';
import type { EvidenceEvent } from '../../../shared/ledger/event.ts';
import { anEvent, openLedger, type TestLedger } from '../../support/ledger/ledger.ts';
import { freshDatabase } from '../../support/programs/postgres.ts';

let database: Awaited<ReturnType<typeof freshDatabase>>;
let ledger: TestLedger;
let services: Pick<Services, 'pool' | 'vault' | 'ledger' | 'clock'>;
let events: EvidenceEvent[];

const vault = {
  mac: (purpose: string, data: string) => createHmac('sha256', purpose).update(data).digest('hex'),
} as Services['vault'];
const timeOf = (minute: number) => new Date(Date.UTC(2026, 6, 1, 9, minute)).toISOString();

beforeAll(async () => {
  database = await freshDatabase();
  ledger = await openLedger({ databaseUrl: database.url });
  services = { pool: ledger.store.pool, vault, ledger, clock: systemClock };
  events = Array.from({ length: 60 }, (_, index) =>
    anEvent({
      chain_id: `agent:${index % 3}`,
      agent_id: String(index % 3),
      tool: index % 5 === 0 ? undefined : `tool.${index % 5}`,
      decision: index % 4 === 0 ? 'deny' : 'allow',
      reason_code: `reason.${index % 7}`,
      occurred_at: timeOf(index),
    }),
  );
  await ledger.sealAll('t', events);
  await ledger.sealAll('other', [anEvent(), anEvent()]);
});
afterAll(async () => {
  expect(await ledger.verify('t')).toMatchObject({ ok: true });
  await ledger.close();
  await database.drop();
});

const query = (given: Readonly<Record<string, string>> = {}) =>
  contract.listEvidenceEvents.query?.parse(given) ?? expect.fail('no query');
const list = (given: Readonly<Record<string, string>> = {}, tenantId = 't') =>
  listEvents(services, tenantId, query(given));
const indexesOf = (page: Awaited<ReturnType<typeof list>>) =>
  page.events.map(({ id }) => events.findIndex((event) => event.id === id));
const where = (holds: (index: number) => boolean) => events.map((_, index) => index).filter(holds);

/** Reads all pages to the end. */
async function all(given: Readonly<Record<string, string>>): Promise<number[]> {
  const found: number[] = [];
  let cursor: string | null | undefined;
  while (cursor !== null) {
    const page = await list(cursor === undefined ? given : { ...given, cursor });
    found.push(...indexesOf(page));
    cursor = page.next_cursor;
  }
  return found;
}

describe('listing events', () => {
  it('returns the sealed events; the JCS form of an event without its link fields is the text that was hashed', async () => {
    const page = await list({ limit: '3' });
    for (const [index, shown] of page.events.entries()) {
      const { prev_hash, event_hash, sealed_at, cursor, ...sealed } = shown;
      const event = JSON.parse(JSON.stringify(events[index]));
      expect(sealed).toMatchObject({ ...event, tenant: 't', position: index + 1 });
      expect(eventHash(prev_hash, canonicalJson(sealed))).toBe(event_hash);
      expect(Date.parse(sealed_at ?? '')).toBeLessThanOrEqual(Date.now());
      expect(cursor).toMatch(/^[\w-]{43}$/);
    }
    expect(contract.listEvidenceEvents.success.schema?.parse(page)).toEqual(page);
  });

  it('returns events in order of position, 100 by default; the last page has a null cursor', async () => {
    const page = await list();
    expect(indexesOf(page)).toEqual(where(() => true));
    expect(page.next_cursor).toBeNull();
    const exact = await list({ limit: '60' });
    expect(exact.next_cursor).toBeNull();
    const first = await list({ limit: '59' });
    expect(first.next_cursor).toBe(first.events.at(-1)?.cursor);
  });

  it.each([
    ['chain_id', { chain_id: 'agent:1' }, (index: number) => index % 3 === 1],
    ['agent_id', { agent_id: '2' }, (index: number) => index % 3 === 2],
    ['tool', { tool: 'tool.3' }, (index: number) => index % 5 === 3],
    ['decision', { decision: 'deny' }, (index: number) => index % 4 === 0],
    ['reason_code', { reason_code: 'reason.6' }, (index: number) => index % 7 === 6],
    ['from, inclusive', { from: timeOf(40) }, (index: number) => index >= 40],
    ['to, inclusive', { to: timeOf(20) }, (index: number) => index <= 20],
    ['one instant', { from: timeOf(20), to: timeOf(20) }, (index: number) => index === 20],
    [
      'a time with an offset',
      { from: '2026-07-01T11:40:00+02:00' },
      (index: number) => index >= 40,
    ],
    [
      'all of them together',
      { chain_id: 'agent:0', agent_id: '0', decision: 'deny', from: timeOf(10), to: timeOf(50) },
      (index: number) => index % 12 === 0 && index >= 10 && index <= 50,
    ],
    ['a tool without events', { tool: 'no.such.tool' }, () => false],
  ])('filters by %s with any page size', async (_what, given, holds) => {
    for (const limit of ['1', '4', '1000'])
      expect(await all({ ...given, limit })).toEqual(where(holds));
  });

  it('continues after any event’s cursor with the next event, under any filter', async () => {
    const { events: shown } = await list();
    for (const after of [0, 17, 58, 59]) {
      const cursor = shown[after]?.cursor ?? '';
      expect(indexesOf(await list({ cursor }))).toEqual(where((index) => index > after));
      expect(indexesOf(await list({ cursor, chain_id: 'agent:1' }))).toEqual(
        where((index) => index > after && index % 3 === 1),
      );
      expect(indexesOf(await list({ cursor, decision: 'deny' }))).toEqual(
        where((index) => index > after && index % 4 === 0),
      );
    }
  });

  it('returns nothing of another tenant, and refuses cursors of another tenant', async () => {
    const own = await list({}, 'other');
    expect(own.events).toHaveLength(2);
    expect(own.events.every(({ tenant }) => tenant === 'other')).toBe(true);
    const cursor = own.events[0]?.cursor ?? '';
    await expect(list({ cursor })).rejects.toMatchObject({ code: 'evidence.cursor_invalid' });
    expect((await list({}, 'nobody')).events).toEqual([]);
  });

  it('finds events by time of occurrence, whatever their order of arrival', async () => {
    const minutes = fc.array(fc.integer({ min: 0, max: 59 }), { minLength: 1, maxLength: 30 });
    let tenants = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(minutes, { minLength: 1, maxLength: 6 }), async (batches) => {
        const tenantId = `late_${++tenants}`;
        for (const batch of batches) {
          await ledger.sealAll(
            tenantId,
            batch.map((minute) => anEvent({ occurred_at: timeOf(minute) })),
          );
        }
        const all = batches.flat();
        for (const from of [0, 1, 20, 40, 59]) {
          const expected = all.flatMap((minute, index) => (minute >= from ? [index + 1] : []));
          const given = { from: timeOf(from), limit: '1000' };
          const chained = { ...given, chain_id: 'agent:7' };
          for (const filters of [given, chained]) {
            const page = await list(filters, tenantId);
            expect(page.events.map(({ position }) => position)).toEqual(expected);
          }
        }
        expect(await ledger.verify(tenantId)).toMatchObject({ ok: true });
      }),
      { numRuns: 15 },
    );
  });

  it('finds a tool whose name is longer than the index column', async () => {
    const tool = `mcp.${'x'.repeat(450)}`;
    await ledger.seal('long', anEvent({ tool }));
    expect((await list({ tool }, 'long')).events).toMatchObject([{ tool }]);
  });

  it('neither skips nor repeats events while new events are written', async () => {
    const tenantId = 'busy';
    const { signingKeys } = ledger;
    const second = await openLedger({ databaseUrl: database.url, signingKeys });
    let isOver = false;
    const sealed: string[] = [];
    const writers = [ledger, second].map(async (writer) => {
      for (let round = 0; round < 60; round++) {
        const batch = Array.from({ length: 1 + (round % 4) }, () => anEvent());
        await writer.sealAll(tenantId, batch);
        sealed.push(...batch.map(({ id }) => id));
      }
    });
    const reading = (async () => {
      const seen: string[] = [];
      let cursor: string | undefined;
      for (;;) {
        const isLast = isOver;
        const page = await list(
          { limit: '7', ...(cursor === undefined ? {} : { cursor }) },
          tenantId,
        );
        seen.push(...page.events.map(({ id }) => id));
        cursor = page.events.at(-1)?.cursor ?? cursor;
        if (isLast && page.next_cursor === null) return seen;
      }
    })();
    await Promise.all(writers);
    isOver = true;
    const seen = await reading;
    expect(seen).toHaveLength(new Set(seen).size);
    expect(seen.toSorted()).toEqual(sealed.toSorted());
    await second.close();
  });

  it.each([
    { limit: '0' },
    { limit: '1001' },
    { limit: '-1' },
    { limit: '1.5' },
    { limit: 'ten' },
    { limit: '' },
    { from: 'yesterday' },
    { from: '2026-07-01' },
    { to: '1751360400' },
    { from: timeOf(2), to: timeOf(1) },
    { tool: '' },
    { tool: 'nul\0' },
    { chain_id: 'x'.repeat(513) },
    { cursor: 'x'.repeat(101) },
  ])('refuses a malformed filter: %j', (given) => {
    expect(contract.listEvidenceEvents.query?.safeParse(given).success).toBe(false);
  });

  it.each(['0', 'abc', 'AAAAAAAAACoAAAAAAAAAEQECAwQFBgcICQoLDA0ODxAREhM', '../..'])(
    'refuses a cursor that this ledger did not issue: %s',
    async (cursor) => {
      await expect(list({ cursor })).rejects.toMatchObject({ code: 'evidence.cursor_invalid' });
    },
  );
});

describe('appending an event', () => {
  const caller = (fields: Partial<Caller> = {}): Caller => ({
    kind: 'key',
    tenantId: 'custom',
    principal: 'dana',
    role: 'owner',
    scope: 'tenant',
    permissions: new Set(),
    address: '127.0.0.1',
    ...fields,
  });
  const body = (given: unknown) =>
    contract.appendEvidenceEvent.body?.parse(given) ?? expect.fail('no body');
  const append = (given: object, fields: Partial<Caller> = {}) =>
    appendEvent(services, caller(fields), body({ type: 'custom.note', data: { a: 1 }, ...given }));

  it('returns the event with its position, and the event appears in the list', async () => {
    const appended = await append({ type: 'custom.ticket_closed' });
    expect(appended).toMatchObject({
      type: 'custom.ticket_closed',
      tenant: 'custom',
      chain_id: 'custom:events',
      user_id: 'dana',
      source: 'control-plane',
      data: { a: 1 },
    });
    const { events: shown } = await list({}, 'custom');
    expect(shown.at(-1)).toMatchObject(appended);
  });

  it('puts an agent’s event on the agent’s chain by default', async () => {
    expect(await append({ agent_id: '7' })).toMatchObject({ chain_id: 'agent:7', agent_id: '7' });
    expect(await append({ agent_id: '7', chain_id: 'tickets:81' })).toMatchObject({
      chain_id: 'tickets:81',
    });
  });

  it('refuses an event of another agent if the key is bound to an agent', async () => {
    const bound = { agentId: '7' };
    expect(await append({}, bound)).toMatchObject({ chain_id: 'agent:7', agent_id: '7' });
    expect(await append({ chain_id: 'tickets:81' }, bound)).toMatchObject({ agent_id: '7' });
    await expect(append({ agent_id: '8' }, bound)).rejects.toMatchObject({
      code: 'agent.mismatch',
    });
    await expect(append({ chain_id: 'agent:8' }, bound)).rejects.toMatchObject({
      code: 'agent.mismatch',
    });
  });

  it.each([
    { type: 'decision' },
    { type: 'custom.' },
    { type: 'custom.UPPER' },
    { type: 'chain_verification_failed' },
    { data: 'text' },
    { data: [] },
    { data: undefined },
    { chain_id: '' },
    { chain_id: 'a\0b' },
    { decision: 'allow' },
    { tenant: 'other' },
  ])('refuses a body that is invalid or could imitate another event: %j', (given) => {
    const parsed = contract.appendEvidenceEvent.body?.safeParse({
      type: 'custom.note',
      data: {},
      ...given,
    });
    expect(parsed?.success).toBe(false);
  });
});
