import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../../shared/base/clock.ts';
import { silentLog } from '../../../shared/base/log.ts';
import type { Bus, Change, Follower } from '../../../shared/bus/bus.ts';
import { openBus } from '../../../shared/bus/open.ts';
import { until } from '../../support/base/until.ts';
import { startRedis, type TestRedis } from '../../support/programs/redis.ts';

let redis: TestRedis;
const opened: Bus[] = [];
let tenants = 0;

/** Returns a tenant that no other test of this file uses. */
const newTenant = () => `tenant-${++tenants}`;

beforeAll(async () => {
  redis = await startRedis();
});
afterEach(async () => {
  await Promise.all(opened.splice(0).map((bus) => bus.close()));
});
afterAll(() => redis.stop());

async function open(kind: Bus['kind'], changesKept?: number): Promise<Bus> {
  const redisUrl = kind === 'redis' ? redis.url : undefined;
  const bus = await openBus({ redisUrl, log: silentLog, clock: systemClock, changesKept });
  opened.push(bus);
  return bus;
}

/** Records the changes that a follower received, in order. */
function recorder(extra: Partial<Follower> = {}) {
  const changes: Change[] = [];
  const seen = { changes, gaps: 0 };
  const follower: Follower = {
    onChange: (change) => changes.push(change),
    onGap: () => {
      seen.gaps += 1;
    },
    ...extra,
  };
  const told = () => changes.map(({ name, value }) => `${name}=${value}`);
  return { seen, follower, told };
}

describe.each(['memory', 'redis'] as const)('the %s bus: sections and changes', (kind) => {
  it('loads a tenant without sections as empty', async () => {
    const bus = await open(kind);
    expect((await bus.load(newTenant())).sections.size).toBe(0);
    expect(await bus.read(newTenant(), 'policies')).toBeUndefined();
  });

  it('returns a published section both alone and together with all others', async () => {
    const bus = await open(kind);
    const tenant = newTenant();
    await bus.publish(tenant, 'policies', 'p1');
    await bus.publish(tenant, 'sidecar:a', 'ключ "quoted" \u0000');
    await bus.publish(tenant, 'policies', 'p2');
    expect(await bus.read(tenant, 'policies')).toBe('p2');
    const { sections } = await bus.load(tenant);
    expect([...sections].sort()).toEqual([
      ['policies', 'p2'],
      ['sidecar:a', 'ключ "quoted" \u0000'],
    ]);
    expect([...(await bus.load(tenant, ['sidecar:a', 'none'])).sections.keys()]).toEqual([
      'sidecar:a',
    ]);
  });

  it.each([
    ['a', 'a}'],
    ['a', 'a}:section:x'],
    ['ä', 'a'],
    ['{a}', 'a'],
    ['a:b', 'a'],
  ])('separates the tenants %j and %j', async (one, other) => {
    const bus = await open(kind);
    const suffix = newTenant();
    await bus.publish(`${one}${suffix}`, 'policies', 'of one');
    await bus.claim(`${one}${suffix}`, 'jti', 60_000);
    expect((await bus.load(`${other}${suffix}`)).sections.size).toBe(0);
    expect((await bus.claim(`${other}${suffix}`, 'jti', 60_000)).status).toBe('claimed');
  });

  it('delivers to a follower only the changes published after its load', async () => {
    const bus = await open(kind);
    const tenant = newTenant();
    await bus.publish(tenant, 'policies', 'before');
    const { at } = await bus.load(tenant);
    const { seen, follower, told } = recorder();
    bus.follow(tenant, at, follower);
    await bus.publish(tenant, 'tools', 'after');
    await until(() => seen.changes.length > 0);
    expect(told()).toEqual(['tools=after']);
    expect(seen.gaps).toBe(0);
  });

  it('delivers the first change to a follower of an empty tenant', async () => {
    const bus = await open(kind);
    const tenant = newTenant();
    const { at } = await bus.load(tenant);
    await bus.publish(tenant, 'tools', 'first');
    const { seen, follower, told } = recorder();
    bus.follow(tenant, at, follower);
    await until(() => seen.changes.length > 0);
    expect(told()).toEqual(['tools=first']);
    expect(seen.gaps).toBe(0);
  });

  it('delivers changes in ascending order of position, up to the last value of each section', async () => {
    const bus = await open(kind);
    const tenant = newTenant();
    const { at } = await bus.load(tenant);
    const { seen, follower } = recorder();
    bus.follow(tenant, at, follower);
    for (let round = 0; round < 200; round++)
      await bus.publish(tenant, `s${round % 3}`, `v${round}`);
    await until(() => seen.changes.at(-1)?.value === 'v199');
    const last = new Map(seen.changes.map(({ name, value }) => [name, value]));
    expect(last).toEqual(
      new Map([
        ['s0', 'v198'],
        ['s1', 'v199'],
        ['s2', 'v197'],
      ]),
    );
    const numbers = seen.changes.map(({ id }) => Number(id.split('-')[0]));
    expect(numbers).toEqual(numbers.toSorted((a, b) => a - b));
    expect(new Set(numbers).size).toBe(numbers.length);
  });

  it('resumes a follower strictly after its position', async () => {
    const bus = await open(kind);
    const tenant = newTenant();
    const first = recorder();
    const subscription = bus.follow(tenant, (await bus.load(tenant)).at, first.follower);
    await bus.publish(tenant, 'a', '1');
    await until(() => first.seen.changes.length === 1);
    await subscription.close();
    await bus.publish(tenant, 'b', '2');
    const second = recorder();
    bus.follow(tenant, first.seen.changes[0]?.id ?? '', second.follower);
    await until(() => second.seen.changes.length === 1);
    expect(second.told()).toEqual(['b=2']);
    expect(first.told()).toEqual(['a=1']);
  });

  it('delivers only the requested sections to a follower', async () => {
    const bus = await open(kind);
    const tenant = newTenant();
    const { seen, follower, told } = recorder({ wants: (name) => name === 'mine' });
    bus.follow(tenant, (await bus.load(tenant)).at, follower);
    await bus.publish(tenant, 'theirs', '1');
    await bus.publish(tenant, 'mine', '2');
    await until(() => seen.changes.length > 0);
    expect(told()).toEqual(['mine=2']);
  });

  it('reports a gap to a follower whose position was trimmed, and then delivers the later changes', async () => {
    const bus = await open(kind, 5);
    const tenant = newTenant();
    await bus.publish(tenant, 'a', '0');
    const { at } = await bus.load(tenant);
    for (let round = 1; round <= 6; round++) await bus.publish(tenant, 'a', String(round));
    const { seen, follower, told } = recorder();
    bus.follow(tenant, at, follower);
    await until(() => seen.gaps > 0);
    await bus.publish(tenant, 'a', 'later');
    await until(() => seen.changes.length > 0);
    expect(told()).toEqual(['a=later']);
    expect(seen.gaps).toBe(1);
  });

  it('reports a gap to a follower that starts at the beginning of a stream whose first entries were trimmed', async () => {
    const bus = await open(kind, 5);
    const tenant = newTenant();
    const { at } = await bus.load(tenant);
    for (let round = 1; round <= 6; round++) await bus.publish(tenant, 'a', String(round));
    const { seen, follower } = recorder();
    bus.follow(tenant, at, follower);
    await until(() => seen.gaps === 1);
    expect(seen.changes).toEqual([]);
  });

  it('never calls a closed follower', async () => {
    const bus = await open(kind);
    const tenant = newTenant();
    const closed = recorder();
    const witness = recorder();
    const { at } = await bus.load(tenant);
    const subscription = bus.follow(tenant, at, closed.follower);
    bus.follow(tenant, at, witness.follower);
    await subscription.close();
    await bus.publish(tenant, 'a', '1');
    await until(() => witness.seen.changes.length === 1);
    expect(closed.seen.changes).toEqual([]);
  });

  it('delivers later changes to a follower that threw an error, and does not redeliver the change that failed', async () => {
    const bus = await open(kind);
    const tenant = newTenant();
    const heard: string[] = [];
    bus.follow(tenant, (await bus.load(tenant)).at, {
      onGap() {},
      onChange({ value }) {
        heard.push(value);
        throw new Error('the follower is at fault');
      },
    });
    await bus.publish(tenant, 'a', '1');
    await until(() => heard.length === 1);
    await bus.publish(tenant, 'a', '2');
    await until(() => heard.length > 1);
    expect(heard).toEqual(['1', '2']);
  });

  it('replaces a section only if the section has the expected value', async () => {
    const bus = await open(kind);
    const tenant = newTenant();
    expect(await bus.replace(tenant, 'p', { expected: 'x', value: '1' })).toBe(false);
    expect(await bus.replace(tenant, 'p', { expected: undefined, value: '1' })).toBe(true);
    expect(await bus.replace(tenant, 'p', { expected: undefined, value: '2' })).toBe(false);
    expect(await bus.replace(tenant, 'p', { expected: '1', value: '3' })).toBe(true);
    expect(await bus.read(tenant, 'p')).toBe('3');
  });

  it('lets exactly one of several writers replace the same value', async () => {
    const bus = await open(kind);
    const tenant = newTenant();
    await bus.publish(tenant, 'p', 'old');
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        bus.replace(tenant, 'p', { expected: 'old', value: `new ${index}` }),
      ),
    );
    expect(outcomes.filter(Boolean)).toHaveLength(1);
  });

  it('reports no change for a refused replacement', async () => {
    const bus = await open(kind);
    const tenant = newTenant();
    await bus.publish(tenant, 'p', '1');
    const { at } = await bus.load(tenant);
    await bus.replace(tenant, 'p', { expected: 'other', value: '2' });
    expect((await bus.load(tenant)).at).toBe(at);
  });

  it('deletes a section with a time to live when it expires', async () => {
    const bus = await open(kind);
    const tenant = newTenant();
    await bus.publish(tenant, 'brief', '1', { ttlMs: 40 });
    await bus.publish(tenant, 'kept', '1', { ttlMs: 40 });
    await bus.publish(tenant, 'kept', '2');
    expect(await bus.read(tenant, 'brief')).toBe('1');
    await until(async () => (await bus.load(tenant)).sections.size === 1);
    expect(await bus.read(tenant, 'brief')).toBeUndefined();
    expect(await bus.replace(tenant, 'brief', { expected: undefined, value: '3' })).toBe(true);
  });

  it('refuses an empty section, because clients could not distinguish it from a missing one', async () => {
    const bus = await open(kind);
    await expect(bus.publish(newTenant(), 'p', '')).rejects.toThrow(TypeError);
  });
});

describe.each(['memory', 'redis'] as const)('the %s bus: claims, counters, topics', (kind) => {
  it('grants a key to exactly one of many concurrent claims', async () => {
    const buses = kind === 'redis' ? [await open(kind), await open(kind)] : [await open(kind)];
    const tenant = newTenant();
    const results = await Promise.all(
      buses.flatMap((bus) => Array.from({ length: 100 }, () => bus.claim(tenant, 'jti', 60_000))),
    );
    expect(results.filter(({ status }) => status === 'claimed')).toHaveLength(1);
    expect(new Set(results.map(({ epochMs }) => epochMs)).size).toBe(1);
  });

  it('frees a claimed key when its time to live ends, and not earlier', async () => {
    const bus = await open(kind);
    const tenant = newTenant();
    expect(await bus.isTaken(tenant, 'jti')).toBe(false);
    expect((await bus.claim(tenant, 'jti', 150)).status).toBe('claimed');
    expect(await bus.isTaken(tenant, 'jti')).toBe(true);
    expect(await bus.isTaken(`${tenant}2`, 'jti')).toBe(false);
    expect((await bus.claim(tenant, 'jti', 150)).status).toBe('taken');
    await until(async () => (await bus.claim(tenant, 'jti', 60_000)).status === 'claimed');
    expect((await bus.claim(tenant, 'jti', 150)).status).toBe('taken');
  });

  it('returns the same epoch (the time since which claims are stored) with every claim', async () => {
    const before = Date.now();
    const bus = await open(kind);
    const tenant = newTenant();
    await bus.publish(tenant, 'tenant', 'the epoch begins with the first section');
    const published = Date.now();
    const { epochMs } = await bus.claim(tenant, 'a', 1_000);
    expect(epochMs).toBeGreaterThanOrEqual(before);
    expect(epochMs).toBeLessThanOrEqual(published);
    expect((await bus.claim(tenant, 'b', 1_000)).epochMs).toBe(epochMs);
  });

  it('increments a counter by the amount that the caller specifies', async () => {
    const bus = await open(kind);
    const tenant = newTenant();
    expect((await bus.count(tenant, 'time', 60_000, 7)).count).toBe(7);
    expect((await bus.count(tenant, 'time', 60_000)).count).toBe(8);
    expect((await bus.count(tenant, 'time', 60_000, 5)).count).toBe(13);
  });

  it('counts every call within a window, and starts at zero in the next window', async () => {
    const bus = await open(kind);
    const tenant = newTenant();
    const counts = await Promise.all(
      Array.from({ length: 50 }, () => bus.count(tenant, 'minute', 200)),
    );
    expect(counts.map(({ count }) => count).sort((a, b) => a - b)).toEqual(
      Array.from({ length: 50 }, (_, index) => index + 1),
    );
    for (const { resetMs } of counts) {
      expect(resetMs).toBeGreaterThanOrEqual(0);
      expect(resetMs).toBeLessThanOrEqual(200);
    }
    await until(async () => (await bus.count(tenant, 'minute', 200)).count < 50);
    expect((await bus.count(newTenant(), 'minute', 200)).count).toBe(1);
  });

  it('sends a notification to every subscriber of the topic and to no other subscriber', async () => {
    const bus = await open(kind);
    const topic = newTenant();
    const heard: string[] = [];
    bus.subscribe(topic, (message) => heard.push(`one ${message}`));
    bus.subscribe(topic, (message) => heard.push(`two ${message}`));
    bus.subscribe(`${topic}-other`, (message) => heard.push(`other ${message}`));
    await until(async () => {
      await bus.notify(topic, 'ping');
      return heard.length >= 2;
    });
    expect(new Set(heard)).toEqual(new Set(['one ping', 'two ping']));
  });

  it('sends nothing to a closed subscription, and continues to notify the others', async () => {
    const bus = await open(kind);
    const topic = newTenant();
    const closed: string[] = [];
    const hearing: string[] = [];
    const subscription = bus.subscribe(topic, (message) => closed.push(message));
    bus.subscribe(topic, (message) => hearing.push(message));
    await until(async () => {
      await bus.notify(topic, 'a');
      return hearing.includes('a');
    });
    await subscription.close();
    const heardBefore = closed.length;
    await until(async () => {
      await bus.notify(topic, 'b');
      return hearing.includes('b');
    });
    expect(closed.length).toBe(heardBefore);
  });

  it('refuses every call after it was closed', async () => {
    const bus = await open(kind);
    await bus.publish('t', 'a', '1');
    await bus.close();
    const refusal = { code: 'bus.unavailable' };
    await expect(bus.ping()).rejects.toMatchObject(refusal);
    await expect(bus.load('t')).rejects.toMatchObject(refusal);
    await expect(bus.read('t', 'a')).rejects.toMatchObject(refusal);
    await expect(bus.publish('t', 'a', '1')).rejects.toMatchObject(refusal);
    await expect(bus.claim('t', 'a', 1)).rejects.toMatchObject(refusal);
    await expect(bus.count('t', 'a', 1)).rejects.toMatchObject(refusal);
    await expect(bus.notify('t', 'a')).rejects.toMatchObject(refusal);
  });
});
