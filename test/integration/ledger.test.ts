import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { outboxMac } from '../../control-plane/platform/integrity/outbox-mac.ts';
import { transaction } from '../../control-plane/platform/store/transaction.ts';
import { generateSigningKey, verificationKeys } from '../../shared/crypto/signing-key.ts';
import { eventHash } from '../../shared/ledger/canonical.ts';
import { type EvidenceEvent, genesisHash } from '../../shared/ledger/event.ts';
import { verifyHead } from '../../shared/ledger/head.ts';
import { Frontier, leafOf } from '../../shared/ledger/merkle.ts';
import { anEvent, openLedger, type TestLedger, testVault } from '../support/ledger/ledger.ts';
import { freshDatabase } from '../support/programs/postgres.ts';

const key = generateSigningKey();
const stores = {
  async postgres() {
    const database = await freshDatabase();
    return { options: { databaseUrl: database.url, key }, remove: () => database.drop() };
  },
  async embedded() {
    const dataDir = mkdtempSync(join(tmpdir(), 'sallyport-ledger-'));
    const remove = async () => rmSync(dataDir, { recursive: true, force: true });
    return { options: { databaseUrl: undefined, dataDir, key }, remove };
  },
};

describe.each(['postgres', 'embedded'] as const)('the ledger on %s', (kind) => {
  let opened: Awaited<ReturnType<(typeof stores)['postgres' | 'embedded']>>;
  let ledger: TestLedger;
  let tenants = 0;
  let tenantId: string;

  beforeAll(async () => {
    opened = await stores[kind]();
    ledger = await openLedger(opened.options);
  });
  afterAll(async () => {
    await ledger.close();
    await opened.remove();
  });
  // The whole ledger must be valid after each test.
  afterEach(async () => {
    expect(await ledger.verify(tenantId)).toMatchObject({ ok: true, problem: null });
  });
  const newTenant = () => {
    tenantId = `tenant_${++tenants}`;
    return tenantId;
  };

  const record = (event: EvidenceEvent, tenant = tenantId) =>
    transaction(ledger.store.db, (tx) => ledger.record(tx, tenant, event));
  const outboxSize = async () =>
    (await ledger.store.pool.query('SELECT count(*)::int AS n FROM event_outbox')).rows[0].n;
  const eventsOf = async (type: string) =>
    (
      await ledger.store.pool.query<{ canonical: string }>(
        'SELECT canonical FROM evidence_row WHERE tenant_id = $1 AND type = $2 ORDER BY position',
        [tenantId, type],
      )
    ).rows.map(({ canonical }) => JSON.parse(canonical));

  it('seals an event with its hash and a link to the previous event of its chain', async () => {
    newTenant();
    const first = await ledger.seal(tenantId, anEvent());
    const other = await ledger.seal(tenantId, anEvent({ chain_id: 'agent:8' }));
    const second = await ledger.seal(tenantId, anEvent());
    expect(first).toMatchObject({ tenantId, position: 1, seq: 1, prevHash: genesisHash });
    expect(other).toMatchObject({ position: 2, chainId: 'agent:8', seq: 1, prevHash: genesisHash });
    expect(second).toMatchObject({
      position: 3,
      chainId: 'agent:7',
      seq: 2,
      prevHash: first.eventHash,
    });
    for (const sealed of [first, other, second]) {
      expect(sealed.eventHash).toBe(eventHash(sealed.prevHash, sealed.canonical));
      expect(JSON.parse(sealed.canonical)).toMatchObject({
        tenant: tenantId,
        position: sealed.position,
        chain_id: sealed.chainId,
        seq: sealed.seq,
      });
    }
  });

  it('signs the head of every batch with the tenant’s key, over the Merkle root of all rows', async () => {
    newTenant();
    const sealed = [
      ...(await ledger.sealAll(tenantId, [anEvent(), anEvent()])),
      await ledger.seal(tenantId, anEvent()),
    ];
    const { rows } = await ledger.store.pool.query(
      'SELECT position::int, tree_root, kid, jws FROM evidence_batch WHERE tenant_id = $1 ORDER BY 1',
      [tenantId],
    );
    expect(rows.map(({ position }) => position)).toEqual([2, 3]);
    const tree = new Frontier();
    for (const { eventHash: hash } of sealed) tree.append(leafOf(hash));
    expect(rows[1]).toMatchObject({
      kid: key.kid,
      tree_root: `sha256:${tree.root().toString('hex')}`,
    });
    const keys = verificationKeys([key.publicJwk]);
    for (const { position, tree_root, jws } of rows) {
      expect(verifyHead({ tenant: tenantId, position, tree_root }, jws, keys)).toBe(true);
      expect(verifyHead({ tenant: 'other', position, tree_root }, jws, keys)).toBe(false);
    }
  });

  it('seals events that arrive together in one batch, in the order of their arrival', async () => {
    newTenant();
    const events = Array.from({ length: 1_300 }, (_, index) =>
      anEvent({ chain_id: `agent:${index % 7}` }),
    );
    const sealed = await ledger.sealAll(tenantId, events);
    expect(sealed.map(({ position }) => position)).toEqual(events.map((_, index) => index + 1));
    expect(sealed.map(({ canonical }) => JSON.parse(canonical).id)).toEqual(
      events.map(({ id }) => id),
    );
    const batches = await ledger.store.pool.query(
      'SELECT position::int FROM evidence_batch WHERE tenant_id = $1 ORDER BY 1',
      [tenantId],
    );
    expect(batches.rows.map(({ position }) => position)).toEqual([500, 1_000, 1_300]);
  });

  it('separates tenants: each has its own positions, chains and ids', async () => {
    const event = anEvent();
    const [one, two] = [newTenant(), newTenant()];
    const [first, second] = await Promise.all([ledger.seal(one, event), ledger.seal(two, event)]);
    expect(first).toMatchObject({ position: 1, seq: 1, prevHash: genesisHash });
    expect(second).toMatchObject({ position: 1, seq: 1, prevHash: genesisHash });
    expect(first.eventHash).not.toBe(second.eventHash);
    expect((await ledger.verify(one)).ok).toBe(true);
  });

  it('seals a repeated event once, and returns the first row', async () => {
    newTenant();
    const event = anEvent();
    const first = await ledger.seal(tenantId, event);
    expect(await ledger.seal(tenantId, event)).toEqual(first);
    const [again, other] = await ledger.sealAll(tenantId, [event, anEvent(), event]);
    expect(again).toEqual(first);
    expect(other?.position).toBe(2);
    const twice = anEvent();
    const both = await Promise.all([ledger.seal(tenantId, twice), ledger.seal(tenantId, twice)]);
    expect(both[0]).toEqual(both[1]);
    expect((await ledger.verify(tenantId)).events).toBe(3);
  });

  it('treats events as equal if they differ only in member order or undefined members', async () => {
    newTenant();
    const event = anEvent({ data: { a: 1, b: { c: 2, d: 3 } } });
    const first = await ledger.seal(tenantId, event);
    const { data: _, ...rest } = event;
    const shuffled = { data: { b: { d: 3, c: 2 }, a: 1, e: undefined }, ...rest };
    expect(await ledger.seal(tenantId, shuffled)).toEqual(first);
  });

  it('refuses an event whose id was used for a different event, seals the rest of the batch, and records the incident once', async () => {
    newTenant();
    const event = anEvent();
    await ledger.seal(tenantId, event);
    const forged = { ...event, decision: 'deny' };
    const results = await Promise.allSettled([
      ledger.seal(tenantId, anEvent()),
      ledger.seal(tenantId, forged),
      ledger.seal(tenantId, anEvent()),
    ]);
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    await expect(ledger.seal(tenantId, forged)).rejects.toMatchObject({
      code: 'evidence.id_conflict',
      details: { event_id: event.id },
    });
    await expect(ledger.sealAll(tenantId, [forged, anEvent()])).rejects.toMatchObject({
      code: 'evidence.id_conflict',
    });
    expect(await eventsOf('evidence.id_conflict')).toMatchObject([
      {
        chain_id: 'ledger:incidents',
        data: { event_id: event.id, claimed_source: 'control-plane' },
      },
    ]);
    expect((await ledger.verify(tenantId)).events).toBe(5);
  });

  it('refuses the second of two different concurrent events with one id', async () => {
    newTenant();
    const event = anEvent();
    const results = await Promise.allSettled([
      ledger.seal(tenantId, event),
      ledger.seal(tenantId, { ...event, tool: 'mcp.other.tool' }),
    ]);
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected']);
    expect(await eventsOf('evidence.id_conflict')).toHaveLength(1);
  });

  it.each([
    ['an unpaired surrogate', { data: { text: '\ud800' } }],
    ['a number that is not finite', { data: { amount: Number.NaN } }],
    ['no data', { data: [] as never }],
    ['an empty id', { id: '' }],
    ['an id longer than an index entry', { id: 'x'.repeat(301) }],
    ['NUL in its chain id', { chain_id: 'agent:\0' }],
    ['an invalid time', { occurred_at: '2026-13-01T00:00:00.000Z' }],
    ['a time without a zone', { occurred_at: '2026-01-01T00:00:00' }],
    ['a tool that is not a string', { tool: 7 as never }],
    ['a time of the year 0', { occurred_at: '0000-01-01T00:00:00.000Z' }],
    ['more than one mebibyte', { data: { text: 'x'.repeat(1_052_673) } }],
  ])('refuses an event with %s, but seals the rest of the batch', async (_what, fields) => {
    newTenant();
    const results = await Promise.allSettled([
      ledger.seal(tenantId, anEvent()),
      ledger.seal(tenantId, anEvent(fields)),
      ledger.seal(tenantId, anEvent()),
    ]);
    expect(results[1]).toMatchObject({ reason: { code: 'evidence.event_invalid' } });
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    await expect(record(anEvent(fields))).rejects.toMatchObject({ code: 'evidence.event_invalid' });
  });

  it('stores values from agents unabridged: names longer than an index entry, NUL, any JSON', async () => {
    newTenant();
    const tool = `mcp.x.${'long'.repeat(3_000)}`;
    const sealed = await ledger.seal(
      tenantId,
      anEvent({ tool, resource: 'nul:\0', reason_code: 'a\0b' }),
    );
    expect(JSON.parse(sealed.canonical)).toMatchObject({
      tool,
      resource: 'nul:\0',
      reason_code: 'a\0b',
    });
    await fc.assert(
      fc.asyncProperty(fc.dictionary(fc.string(), fc.jsonValue()), async (data) => {
        const event = anEvent({ data: JSON.parse(JSON.stringify(data)) });
        const { canonical } = await ledger.seal(tenantId, event);
        expect(JSON.parse(canonical).data).toEqual(event.data);
      }),
      { numRuns: 50 },
    );
  });

  it('accepts many large events, and holds at most one batch in memory', async () => {
    newTenant();
    const events = Array.from({ length: 12 }, () =>
      anEvent({ data: { text: 'x'.repeat(900_000) } }),
    );
    const sealed = await ledger.sealAll(tenantId, events);
    expect(sealed.map(({ position }) => position)).toEqual(events.map((_, index) => index + 1));
  });

  it('commits an event in the transaction of the change that the event records', async () => {
    newTenant();
    const [kept, lost] = [anEvent({ type: 'agent.registered' }), anEvent({ type: 'agent.lost' })];
    const abandoned = transaction(ledger.store.db, async (tx) => {
      await ledger.record(tx, tenantId, lost);
      throw new Error('changed my mind');
    });
    await expect(abandoned).rejects.toThrow('changed my mind');
    await record(kept);
    const sealed = await ledger.sealed(tenantId, kept.id);
    expect(JSON.parse(sealed.canonical)).toMatchObject({ id: kept.id, type: 'agent.registered' });
    await expect(ledger.sealed(tenantId, lost.id)).rejects.toMatchObject({
      code: 'evidence.seal_failed',
    });
    expect((await ledger.verify(tenantId)).events).toBe(1);
    expect(await outboxSize()).toBe(0);
  });

  it('returns the existing row if a caller seals an already sealed event again, or waits for it', async () => {
    newTenant();
    const event = anEvent();
    await record(event);
    const first = await ledger.sealed(tenantId, event.id);
    expect(await ledger.sealed(tenantId, event.id)).toEqual(first);
    expect(await ledger.seal(tenantId, event)).toEqual(first);
  });

  it('seals recorded events in the order of their transactions, and only once for any number of waiters', async () => {
    newTenant();
    const events = Array.from({ length: 40 }, () => anEvent({ type: 'policy.published' }));
    for (const event of events) await record(event);
    const sealed = await Promise.all(events.map(({ id }) => ledger.sealed(tenantId, id)));
    expect(sealed.map(({ position }) => position)).toEqual(events.map((_, index) => index + 1));
    expect(await outboxSize()).toBe(0);
  });

  it('seals recorded events without waiters', async () => {
    newTenant();
    const events = Array.from({ length: 3 }, () => anEvent());
    for (const event of events) await record(event);
    await ledger.drain();
    expect((await ledger.verify(tenantId)).events).toBe(3);
    expect(await outboxSize()).toBe(0);
  });

  it('drains an outbox that contains more than one batch', async () => {
    newTenant();
    const last = anEvent();
    const rows = Array.from({ length: 1100 }, (_, n) => {
      const eventId = `ev_${n}`;
      const event = JSON.stringify({ ...last, id: eventId });
      return { eventId, event, mac: outboxMac(testVault, { tenantId, eventId, event }) };
    });
    await ledger.store.pool.query(
      `INSERT INTO event_outbox (tenant_id, event_id, event, mac)
       SELECT $1, * FROM unnest($2::text[], $3::text[], $4::text[])`,
      [
        tenantId,
        rows.map(({ eventId }) => eventId),
        rows.map(({ event }) => event),
        rows.map(({ mac }) => mac),
      ],
    );
    await record(last);
    expect((await ledger.sealed(tenantId, last.id)).position).toBe(1_101);
    expect(await outboxSize()).toBe(0);
  });

  it('seals an incident instead of a recorded event that cannot be read', async () => {
    newTenant();
    const torn = { tenantId, eventId: 'ev_torn', event: '{"id":' };
    await ledger.store.pool.query(
      'INSERT INTO event_outbox (tenant_id, event_id, event, mac) VALUES ($1, $2, $3, $4)',
      [tenantId, torn.eventId, torn.event, outboxMac(testVault, torn)],
    );
    await ledger.drain();
    expect(await eventsOf('evidence.event_unreadable')).toMatchObject([
      { data: { event_id: 'ev_torn' } },
    ]);
    expect(await outboxSize()).toBe(0);
  });

  it('seals an incident instead of a recorded event whose id was used for another event', async () => {
    newTenant();
    const event = anEvent();
    await ledger.seal(tenantId, event);
    await record({ ...event, tool: 'mcp.other.tool' });
    await expect(ledger.sealed(tenantId, event.id)).rejects.toMatchObject({
      code: 'evidence.id_conflict',
    });
    expect(await eventsOf('evidence.id_conflict')).toHaveLength(1);
    expect(await outboxSize()).toBe(0);
  });

  it('can be verified while events are appended', async () => {
    newTenant();
    let isDone = false;
    const writing = (async () => {
      for (let round = 0; round < 30; round++) {
        await ledger.sealAll(
          tenantId,
          Array.from({ length: 40 }, () => anEvent()),
        );
      }
      isDone = true;
    })();
    let reports = 0;
    while (!isDone) {
      expect(await ledger.verify(tenantId)).toMatchObject({ ok: true, problem: null });
      reports++;
    }
    await writing;
    expect(reports).toBeGreaterThan(0);
  });
});

describe.each(['postgres', 'embedded'] as const)('a ledger that is opened again on %s', (kind) => {
  it('seals the events that the earlier process left in the outbox, and continues at the last position', async () => {
    const { options, remove } = await stores[kind]();
    const before = await openLedger(options);
    const sealed = await before.seal('t', anEvent());
    const left = [anEvent(), anEvent({ chain_id: 'policy:refunds' })];
    await before.close();
    // Simulates a process that ended after a transaction and before the transaction's event was sealed.
    const between = await openLedger({
      ...options,
      signingKeys: { ...before.signingKeys, active: never },
    });
    for (const event of left) {
      await transaction(between.store.db, (tx) => between.record(tx, 't', event));
    }
    await between.store.close();
    const after = await openLedger(options);
    await after.drain();
    const next = await after.seal('t', anEvent());
    expect(next).toMatchObject({ position: 4, seq: 3 });
    expect((await after.sealed('t', left[0]?.id ?? '')).prevHash).toBe(sealed.eventHash);
    expect(await after.verify('t')).toMatchObject({ ok: true, events: 4, chains: 2 });
    await after.close();
    await remove();
  });
});

const never = () => new Promise<never>(() => {});
