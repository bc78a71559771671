import fc from 'fast-check';
import { Agent, EventSource } from 'undici';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { evidenceRoutes } from '../../../control-plane/evidence/routes.ts';
import { keyRoutes } from '../../../control-plane/keys/routes.ts';
import type { EvidenceEvent } from '../../../shared/ledger/event.ts';
import { until } from '../../support/base/until.ts';
import { startApi, type TestApi } from '../../support/control-plane/api.ts';
import { type Follower, startFollower } from '../../support/control-plane/follower.ts';
import { roomyLimits } from '../../support/control-plane/gateway.ts';
import { type TestServices, testServices } from '../../support/control-plane/services.ts';
import { anEvent } from '../../support/ledger/ledger.ts';
import { startCutProxy } from '../../support/programs/cut-proxy.ts';
import { freshDatabase } from '../../support/programs/postgres.ts';

let services: TestServices;
let api: TestApi;
let database: Awaited<ReturnType<typeof freshDatabase>>;
const open: Follower[] = [];
let tenants = 0;

const never = 3_600_000;
// Only sealing wakes followers, because polling is disabled.
const feed = { pollMs: never, aliveMs: 300, permittedMs: 100, followersMax: 20 };

beforeAll(async () => {
  database = await freshDatabase();
  services = await testServices({ databaseUrl: database.url, feed });
  api = await startApi([...evidenceRoutes(services), ...keyRoutes(services)], services, {
    limits: roomyLimits,
  });
});
afterEach(async () => {
  for (const follower of open.splice(0)) follower.close();
  await until(() => services.feed.followers === 0, { what: 'nobody follows any more' });
});
afterAll(async () => {
  await api.close();
  await services.close();
  await database.drop();
});

/** Creates a tenant; returns its ledger, and a client that may follow this ledger. */
async function aTenant() {
  tenants += 1;
  const tenantId = `tenant_${tenants}`;
  const key = await api.key({ tenantId, role: 'auditor' });
  const get = async (query: Readonly<Record<string, string>>) => {
    const path = `/api/v1/evidence/events?${new URLSearchParams(query)}`;
    const { body } = await api.send('GET', path, { key });
    return body?.events as { id: string; cursor: string; position: number }[];
  };
  const follow = async (
    options: { query?: Record<string, string>; lastEventId?: string; origin?: string } = {},
  ) => {
    const follower = await startFollower(options.origin ?? api.origin, { key, ...options });
    open.push(follower);
    expect(follower.status).toBe(200);
    // The first comment has arrived, so the follower is at the end of the ledger.
    await until(() => follower.comments > 0, { what: 'the stream has begun' });
    return follower;
  };
  const seal = async (count: number, fields: Partial<EvidenceEvent> = {}) => {
    const events = Array.from({ length: count }, () => anEvent(fields));
    await services.ledger.sealAll(tenantId, events);
    return events.map(({ id }) => id);
  };
  return { tenantId, key, get, follow, seal };
}

const idsOf = (follower: Follower) => follower.messages.map(({ data }) => data.id);

describe('the event stream', () => {
  it('sends every new event in order, with its cursor, in the form that the list returns', async () => {
    const { follow, seal, get } = await aTenant();
    await seal(3);
    const follower = await follow();
    const contentType = follower.headers.get('content-type');
    expect(contentType).toBe('text/event-stream');
    expect(follower.headers.get('cache-control')).toBe('no-store');
    await seal(1);
    await seal(250);
    await follower.has(251);
    const listed = (await get({ limit: '1000' })).slice(3);
    expect(follower.messages).toEqual(
      listed.map((data) => ({ id: data.cursor, event: 'evidence', data })),
    );
  });

  it('continues after the given cursor or Last-Event-ID, and prefers Last-Event-ID', async () => {
    const { follow, seal, get } = await aTenant();
    const ids = await seal(9);
    const [, second, , , fifth] = await get({});
    const byCursor = await follow({ query: { cursor: second?.cursor ?? '' } });
    await byCursor.has(7);
    expect(idsOf(byCursor)).toEqual(ids.slice(2));
    const byBoth = await follow({
      query: { cursor: second?.cursor ?? '' },
      lastEventId: fifth?.cursor ?? '',
    });
    await byBoth.has(4);
    expect(idsOf(byBoth)).toEqual(ids.slice(5));
    const byEmptyId = await follow({ lastEventId: '', query: { cursor: second?.cursor ?? '' } });
    await byEmptyId.has(7);
  });

  it('refuses malformed parameters and another tenant’s cursor before the stream begins', async () => {
    const { key, get, seal } = await aTenant();
    const other = await aTenant();
    await seal(1);
    await other.seal(1);
    const [foreign] = await other.get({});
    const [own] = await get({});
    const ask = async (query: string, lastEventId?: string) => {
      const headers = lastEventId === undefined ? {} : { 'last-event-id': lastEventId };
      const path = `/api/v1/evidence/stream?${query}`;
      const { status, body, headers: got } = await api.send('GET', path, { key, headers });
      expect(got.get('content-type')).toBe('application/json; charset=utf-8');
      return [status, body?.reason_code];
    };
    const badCursor = [400, 'evidence.cursor_invalid'];
    expect(await ask('cursor=x')).toEqual(badCursor);
    expect(await ask('', 'x')).toEqual(badCursor);
    expect(await ask('', `${own?.cursor}, ${own?.cursor}`)).toEqual(badCursor);
    expect(await ask(`cursor=${own?.cursor}`, 'x')).toEqual(badCursor);
    expect(await ask('cursor=x', own?.cursor)).toEqual(badCursor);
    expect(await ask('', foreign?.cursor)).toEqual(badCursor);
    for (const query of ['limit=5', 'tool=', 'from=yesterday', 'nobody=1'])
      expect(await ask(query)).toEqual([400, 'request.invalid']);
    expect(services.feed.followers).toBe(0);
  });

  it('sends the same events as the list, whether past or new, under any filter', async () => {
    const { follow, seal, get } = await aTenant();
    await seal(1);
    const [start] = await get({});
    const timeOf = (minute: number) => new Date(Date.UTC(2026, 0, 1, 0, minute)).toISOString();
    const some = fc.record({
      chain_id: fc.constantFrom('agent:1', 'agent:2'),
      agent_id: fc.constantFrom('1', '2'),
      tool: fc.constantFrom('a', 'b'),
      decision: fc.constantFrom('allow', 'deny'),
      reason_code: fc.constantFrom('r.1', 'r.2'),
      occurred_at: fc.integer({ min: 0, max: 5 }).map(timeOf),
    });
    const sealBatch = async (batch: readonly Partial<EvidenceEvent>[]) =>
      services.ledger.sealAll(`tenant_${tenants}`, batch.map(anEvent));
    const bound = fc.record({
      from: fc.integer({ min: 0, max: 3 }).map(timeOf),
      // One of these times has a fraction of a millisecond.
      to: fc.constantFrom('2026-01-01T00:03:00Z', '2026-01-01T00:03:59.9999Z'),
    });
    const filter = fc
      .record({ ...filterArbitraries(some), bound: fc.option(bound, { nil: undefined }) })
      .map(({ bound: times, ...rest }) => defined({ ...rest, ...times }));
    await fc.assert(
      fc
        .asyncProperty(
          fc.array(fc.array(some, { minLength: 1, maxLength: 10 }), { minLength: 2, maxLength: 3 }),
          fc.array(filter, { minLength: 1, maxLength: 3 }),
          async ([first = [], ...later], filters) => {
            await sealBatch(first);
            const cursor = start?.cursor ?? '';
            const followers = await Promise.all(
              filters.map((query) => follow({ query: { ...query, cursor } })),
            );
            for (const batch of later) await sealBatch(batch);
            for (const [index, query] of filters.entries()) {
              const expected = (await get({ ...query, cursor, limit: '1000' })).map(({ id }) => id);
              const follower = followers[index] ?? expect.fail('no follower');
              await until(() => idsOf(follower).length >= expected.length);
              expect(idsOf(follower)).toEqual(expected);
            }
          },
        )
        .afterEach(async () => {
          for (const follower of open.splice(0)) follower.close();
          await until(() => services.feed.followers === 0);
        }),
      { numRuns: 12 },
    );
  });

  it('sends nothing of another tenant', async () => {
    const one = await aTenant();
    const two = await aTenant();
    const follower = await one.follow();
    await two.seal(5);
    const ids = await one.seal(2);
    await follower.has(2);
    expect(idsOf(follower)).toEqual(ids);
  });

  it('neither skips nor repeats events for clients that reconnect while thousands are sealed', async () => {
    const { tenantId, follow, seal } = await aTenant();
    await seal(1);
    // The second instance acts as another process. Followers at the first instance learn of its events only
    // when the first instance seals an event.
    const { masterKey } = services;
    const second = await testServices({ databaseUrl: database.url, feed, masterKey });
    const sealed: string[] = [];
    let isOver = false;
    const write = async (writer: TestServices, rounds: number) => {
      for (let round = 0; round < rounds; round++) {
        const batch = Array.from({ length: 1 + (round % 40) }, () => anEvent());
        await writer.ledger.sealAll(tenantId, batch);
        sealed.push(...batch.map(({ id }) => id));
      }
    };
    const steady = await follow();
    const seen: string[] = [];
    const restless = (async () => {
      let lastEventId = steady.lastEventId;
      while (!isOver || seen.length < sealed.length) {
        const follower = await follow({ lastEventId });
        const wanted = Math.min(1 + (seen.length % 90), Math.max(1, sealed.length - seen.length));
        await until(() => follower.messages.length >= wanted || isOver, { withinMs: 60_000 });
        follower.close();
        await follower.ended();
        lastEventId = follower.lastEventId;
        seen.push(...idsOf(follower));
      }
    })();
    await Promise.all([write(services, 80), write(second, 80)]);
    await second.close();
    // The first instance seals the last event, which wakes its followers.
    sealed.push(...(await seal(1)));
    isOver = true;
    await restless;
    await steady.has(sealed.length, 60_000);
    for (const ids of [idsOf(steady), seen]) {
      expect(ids).toHaveLength(sealed.length);
      expect(new Set(ids)).toEqual(new Set(sealed));
    }
    const positions = steady.messages.map(({ data }) => data.position);
    expect(positions).toEqual(positions.map((_, index) => index + 2));
  });
});

function filterArbitraries(some: fc.Arbitrary<Record<string, string>>) {
  const one = (name: string) =>
    fc.option(
      some.map((event) => event[name]),
      { nil: undefined },
    );
  const names = ['chain_id', 'agent_id', 'tool', 'decision', 'reason_code'];
  return Object.fromEntries(names.map((name) => [name, one(name)]));
}

function defined(given: object): Record<string, string> {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}

describe('a connection to the event stream', () => {
  it('sends keep-alives with its position, so that a client can resume without loss even if it received no events', async () => {
    const { follow, seal } = await aTenant();
    await seal(2);
    const rare = await follow({ query: { tool: 'rare' } });
    await seal(30);
    const before = rare.comments;
    await until(() => rare.comments >= before + 2, { what: 'comments keep coming' });
    const last = rare.lastEventId;
    rare.close();
    const ids = await seal(1, { tool: 'rare' });
    const again = await follow({ lastEventId: last });
    await again.has(1);
    expect(idsOf(again)).toEqual(ids);
  });

  it('is resumed without loss by an EventSource client that lost its connection', async () => {
    const { key, seal } = await aTenant();
    const proxy = await startCutProxy(api.origin);
    const agent = new Agent();
    const dispatcher = agent.compose((dispatch) => (options, handler) => {
      const headers = { ...(options.headers as object), authorization: `Bearer ${key}` };
      return dispatch({ ...options, headers }, handler);
    });
    const url = `${proxy.url}api/v1/evidence/stream`;
    const source = new EventSource(url, { dispatcher } as never);
    const seen: string[] = [];
    source.addEventListener('evidence', (message) => {
      seen.push((JSON.parse(String((message as MessageEvent).data)) as { id: string }).id);
    });
    await until(() => source.readyState === source.OPEN);
    const ids = await seal(3);
    await until(() => seen.length === 3);
    proxy.isDown = true;
    ids.push(...(await seal(4)));
    proxy.isDown = false;
    await until(() => seen.length === 7, { withinMs: 20_000 });
    expect(seen).toEqual(ids);
    source.close();
    await proxy.close();
    await agent.close();
  });

  it('ends soon after its key is revoked', async () => {
    const { follow, seal, key, tenantId } = await aTenant();
    const owner = await api.key({ tenantId });
    const follower = await follow();
    const { body } = await api.send('GET', '/api/v1/keys', { key: owner });
    const keys = (body?.keys ?? []) as { id: string; role: string }[];
    const mine = keys.find(({ role }) => role === 'auditor');
    await api.send('DELETE', '/api/v1/keys', { key: owner, body: { id: mine?.id } });
    expect(await follower.ended()).toBe('ended');
    await seal(1);
    expect(follower.messages.filter(({ data }) => data.type !== 'key.revoked')).toEqual([]);
    expect((await api.send('GET', '/api/v1/evidence/stream', { key })).status).toBe(401);
  });

  it('ends soon after its key expires, even while events arrive', async () => {
    const { tenantId, seal } = await aTenant();
    const expiresAt = new Date(services.clock.now() + 60_000);
    const key = await api.key({ tenantId, expiresAt });
    const follower = await startFollower(api.origin, { key });
    open.push(follower);
    services.clock.advance(60_001);
    await until(async () => {
      await seal(1);
      return follower.end !== undefined;
    });
    expect(follower.end).toBe('ended');
  });

  it('does not delay other clients if its client stops reading, and still delivers every event', async () => {
    const { follow, seal } = await aTenant();
    const slow = await follow();
    const quick = await follow();
    slow.pause();
    const ids: string[] = [];
    // 24 MB: more than the socket buffers and the tail buffer hold.
    for (let round = 0; round < 24; round++) {
      ids.push(...(await seal(20, { data: { padding: 'x'.repeat(50_000) } })));
      await quick.has(ids.length);
    }
    expect(slow.messages.length).toBeLessThan(ids.length);
    slow.resume();
    await slow.has(ids.length);
    expect(idsOf(slow)).toEqual(ids);
  });

  it('is refused if the limit of streams is reached; a connection that ends frees its slot', async () => {
    const { follow, key } = await aTenant();
    const ask = () => api.send('GET', '/api/v1/evidence/stream', { key });
    const followers = await Promise.all(Array.from({ length: 20 }, () => follow()));
    const refused = await ask();
    expect([refused.status, refused.body?.reason_code]).toEqual([503, 'evidence.stream_full']);
    const other = await aTenant();
    await other.follow();
    followers[0]?.close();
    await until(() => services.feed.followers === 20);
    await follow();
  });

  it('sends all events, even if there are too many for one page', async () => {
    const { follow, seal } = await aTenant();
    const follower = await follow();
    const ids = await seal(9, { data: { text: 'x'.repeat(900_000) } });
    await follower.has(9);
    expect(idsOf(follower)).toEqual(ids);
  });

  it('counts towards the limit of streams, even if many connections are opened concurrently', async () => {
    const { follow } = await aTenant();
    await Promise.allSettled(Array.from({ length: 60 }, () => follow()));
    expect(services.feed.followers).toBe(20);
  });

  it('cannot be opened by a HEAD request', async () => {
    const { key } = await aTenant();
    const { status } = await api.send('HEAD', '/api/v1/evidence/stream', { key });
    expect(status).toBe(200);
    expect(services.feed.followers).toBe(0);
  });
});

describe('a control plane that shuts down', () => {
  it('ends its streams cleanly, and clients resume at another control plane', async () => {
    const { follow, seal } = await aTenant();
    const going = await testServices({
      databaseUrl: database.url,
      feed,
      masterKey: services.masterKey,
    });
    const goingApi = await startApi(evidenceRoutes(going), going, { limits: roomyLimits });
    const follower = await follow({ origin: goingApi.origin });
    const ids = await seal(1);
    await going.feed.close();
    expect(await follower.ended()).toBe('ended');
    await goingApi.close();
    await going.close();
    const next = await follow({ lastEventId: follower.lastEventId });
    await next.has(1 - follower.messages.length);
    expect([...idsOf(follower), ...idsOf(next)]).toEqual(ids);
  });
});
