import { Redis } from 'ioredis';
import { afterEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../shared/base/clock.ts';
import { type Log, silentLog } from '../../../shared/base/log.ts';
import type { Bus, Follower } from '../../../shared/bus/bus.ts';
import { openBus } from '../../../shared/bus/open.ts';
import { readEviction } from '../../../shared/bus/redis-connection.ts';
import { tenantKeys, tenantTopic } from '../../../shared/bus/tenant-keys.ts';
import { until } from '../../support/base/until.ts';
import { startRedis, type TestRedis } from '../../support/programs/redis.ts';

const ending: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ending.splice(0).reverse()) await end();
});

async function start(...args: Parameters<typeof startRedis>): Promise<TestRedis> {
  const redis = await startRedis(...args);
  ending.push(() => redis.stop());
  return redis;
}

async function open(redisUrl: string, log: Log = silentLog): Promise<Bus> {
  const bus = await openBus({ redisUrl, log, clock: systemClock });
  ending.push(() => bus.close());
  return bus;
}

function raw(redis: TestRedis): Redis {
  const client = new Redis(redis.url);
  ending.push(async () => client.disconnect());
  return client;
}

function recorder() {
  const seen = { told: [] as string[], gaps: 0 };
  const follower: Follower = {
    onChange: ({ name, value }) => seen.told.push(`${name}=${value}`),
    onGap: () => {
      seen.gaps += 1;
    },
  };
  return { seen, follower };
}

function recordingLog() {
  const errors: object[] = [];
  const log: Log = { ...silentLog, error: (fields) => errors.push(fields) };
  return { log, errors };
}

async function expectRefusedSoon(calls: readonly (() => Promise<unknown>)[]): Promise<void> {
  const startedAt = performance.now();
  const outcomes = await Promise.allSettled(calls.map((call) => call()));
  expect(performance.now() - startedAt).toBeLessThan(2_500);
  for (const outcome of outcomes) {
    expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'bus.unavailable' } });
  }
}

const everyCall = (bus: Bus): readonly (() => Promise<unknown>)[] => [
  () => bus.ping(),
  () => bus.load('t'),
  () => bus.read('t', 'a'),
  () => bus.publish('t', 'a', '1'),
  () => bus.replace('t', 'a', { expected: undefined, value: '1' }),
  () => bus.claim('t', 'jti', 1_000),
  () => bus.count('t', 'minute', 1_000),
  () => bus.notify('topic', 'message'),
];

describe('the bus with an unavailable Redis', () => {
  it('fails every call within two seconds if Redis was never reachable', async () => {
    const redis = await start();
    await redis.kill();
    await expectRefusedSoon(everyCall(await open(redis.url)));
  });

  it('fails every call within two seconds if Redis crashed', async () => {
    const redis = await start();
    const bus = await open(redis.url);
    await bus.ping();
    await redis.kill();
    await expectRefusedSoon(everyCall(bus));
  });

  it('fails every call within two seconds while Redis hangs, and works when Redis responds again', async () => {
    const redis = await start();
    const bus = await open(redis.url);
    await bus.ping();
    process.kill(redis.pid, 'SIGSTOP');
    try {
      await expectRefusedSoon(everyCall(bus));
    } finally {
      process.kill(redis.pid, 'SIGCONT');
    }
    await until(() =>
      bus.ping().then(
        () => true,
        () => false,
      ),
    );
  });

  it('works again after Redis restarted', async () => {
    const redis = await start();
    const bus = await open(redis.url);
    await redis.restart();
    await until(() =>
      bus.ping().then(
        () => true,
        () => false,
      ),
    );
    await bus.publish('t', 'a', '1');
    expect(await bus.read('t', 'a')).toBe('1');
  });

  it('opens without Redis, and works when Redis becomes available', async () => {
    const redis = await start();
    await redis.kill();
    const bus = await open(redis.url);
    await redis.restart();
    await until(() =>
      bus.ping().then(
        () => true,
        () => false,
      ),
    );
  });
});

describe('a follower of Redis', () => {
  it('receives all changes across a restart that kept the data', async () => {
    const redis = await start({ persistent: true });
    const bus = await open(redis.url);
    await bus.publish('t', 'a', '1');
    const { seen, follower } = recorder();
    bus.follow('t', (await bus.load('t')).at, follower);
    await bus.publish('t', 'a', '2');
    await until(() => seen.told.length === 1);
    await redis.kill();
    await redis.restart();
    await until(() =>
      bus.publish('t', 'a', '3').then(
        () => true,
        () => false,
      ),
    );
    await until(() => seen.told.length === 2);
    expect(seen).toEqual({ told: ['a=2', 'a=3'], gaps: 0 });
  });

  it('is notified of a gap after a restart that lost the data, and then receives new changes', async () => {
    const redis = await start();
    const bus = await open(redis.url);
    await bus.publish('t', 'a', '1');
    const { seen, follower } = recorder();
    bus.follow('t', (await bus.load('t')).at, follower);
    await redis.restart();
    await until(() => seen.gaps > 0);
    await bus.publish('t', 'a', 'new');
    await until(() => seen.told.includes('a=new'));
  });

  it('is notified of a gap after Redis was flushed, even without a new change', async () => {
    const redis = await start();
    const bus = await open(redis.url);
    await bus.publish('t', 'a', '1');
    const { seen, follower } = recorder();
    bus.follow('t', (await bus.load('t')).at, follower);
    await raw(redis).flushall();
    await until(() => seen.gaps > 0);
  });

  it('is notified of a gap if the stream was lost and recreated while the follower was disconnected', async () => {
    const redis = await start();
    const bus = await open(redis.url);
    await bus.publish('t', 'a', '1');
    const { at } = await bus.load('t');
    await raw(redis).flushall();
    for (const value of ['2', '3', '4']) await bus.publish('t', 'a', value);
    const { seen, follower } = recorder();
    bus.follow('t', at, follower);
    await until(() => seen.gaps === 1);
    await bus.publish('t', 'a', '5');
    await until(() => seen.told.includes('a=5'));
  });

  it('is notified of a gap if an entry was deleted from the stream', async () => {
    const redis = await start();
    const bus = await open(redis.url);
    const client = raw(redis);
    await bus.publish('t', 'a', '1');
    const { at } = await bus.load('t');
    await bus.publish('t', 'kill_switches', 'armed');
    const { at: cut } = await bus.load('t');
    await bus.publish('t', 'b', '2');
    await client.xdel(tenantKeys('t').stream, cut);
    const { seen, follower } = recorder();
    bus.follow('t', at, follower);
    await until(() => seen.gaps === 1);
    expect(seen.told).toEqual([]);
  });

  it('continues after the stream key was replaced by a value of another type and then restored', async () => {
    const redis = await start();
    const bus = await open(redis.url);
    const client = raw(redis);
    await bus.publish('t', 'a', '1');
    const { seen, follower } = recorder();
    bus.follow('t', (await bus.load('t')).at, follower);
    await client.set(tenantKeys('t').stream, 'not a stream');
    await expect(bus.publish('t', 'a', '2')).rejects.toMatchObject({ code: 'bus.unavailable' });
    expect(await bus.read('t', 'a')).toBe('1');
    await client.del(tenantKeys('t').stream);
    await bus.publish('t', 'a', '3');
    await until(() => seen.gaps > 0);
  });
});

describe('claims in Redis', () => {
  it('have a newer epoch after Redis lost its data, so that passports issued before the loss can be refused', async () => {
    const redis = await start();
    const bus = await open(redis.url);
    const before = await bus.claim('t', 'jti', 60_000);
    await raw(redis).flushall();
    const issuedMs = Date.now();
    await until(() => Date.now() > issuedMs);
    const after = await bus.claim('t', 'jti', 60_000);
    expect(after.status).toBe('claimed');
    expect(after.epochMs).toBeGreaterThan(issuedMs);
    expect(after.epochMs).toBeGreaterThan(before.epochMs);
  });

  it('have an epoch from the bus’s clock if Redis’s clock is behind it', async () => {
    const redis = await start();
    const ahead = { now: () => Date.now() + 60_000, monotonic: systemClock.monotonic };
    const bus = await openBus({ redisUrl: redis.url, log: silentLog, clock: ahead });
    ending.push(() => bus.close());
    const { epochMs } = await bus.claim('t', 'jti', 1_000);
    expect(epochMs).toBeGreaterThan(Date.now() + 50_000);
  });

  it('survive the crash of a Redis that persists its data', async () => {
    const redis = await start({ persistent: true });
    const bus = await open(redis.url);
    const { epochMs } = await bus.claim('t', 'jti', 60_000);
    await redis.kill();
    await redis.restart();
    await until(() =>
      bus.ping().then(
        () => true,
        () => false,
      ),
    );
    const after = await bus.claim('t', 'jti', 60_000);
    expect(after.status).toBe('taken');
    // The last writes of this Redis may be lost, because appendonly syncs once a second by default.
    expect(after.epochMs).toBeGreaterThan(epochMs);
  });

  it('are refused if Redis is full, and no stored claim is evicted', async () => {
    const redis = await start();
    const bus = await open(redis.url);
    await bus.claim('t', 'jti', 60_000);
    await raw(redis).config('SET', 'maxmemory', '1');
    await expect(bus.claim('t', 'another', 60_000)).rejects.toMatchObject({
      code: 'bus.unavailable',
    });
    await raw(redis).config('SET', 'maxmemory', '0');
    expect((await bus.claim('t', 'jti', 60_000)).status).toBe('taken');
  });
});

describe('the Redis server', () => {
  it('is reported as misconfigured if its eviction policy can delete claims, and the bus refuses claims', async () => {
    const redis = await start({ maxmemoryPolicy: 'allkeys-lru' });
    const { log, errors } = recordingLog();
    const bus = await open(redis.url, log);
    await expect(bus.claim('t', 'jti', 1_000)).rejects.toMatchObject({ code: 'bus.unavailable' });
    expect(errors).toEqual([{ maxmemory_policy: 'allkeys-lru' }]);
    // Only claims are refused. Signed data is accepted, because it can be published again.
    await bus.publish('t', 'a', '1');
  });

  it('is reported as misconfigured if its eviction policy changes later, and the bus refuses claims until the policy is corrected', async () => {
    const redis = await start();
    const { log, errors } = recordingLog();
    const bus = await open(redis.url, log);
    const isClaimed = (key: string) =>
      bus.claim('t', key, 1_000).then(
        () => true,
        () => false,
      );
    expect(await isClaimed('a')).toBe(true);
    const setPolicy = async (policy: string) => {
      await raw(redis).config('SET', 'maxmemory-policy', policy);
      await raw(redis).call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    };
    await setPolicy('volatile-lru');
    await until(() => errors.some((fields) => 'maxmemory_policy' in fields));
    expect(await isClaimed('b')).toBe(false);
    await setPolicy('noeviction');
    await until(() => isClaimed('c'));
  });

  it('is reported with one message if it does not respond, and with another message if it hides its eviction policy', async () => {
    const redis = await start();
    const client = raw(redis);
    expect(await readEviction(client, silentLog)).toEqual({ policy: 'noeviction' });
    await client.call('ACL', 'SETUSER', 'blind', 'on', '>secret', '~*', '+@all', '-info');
    await client.call('AUTH', 'blind', 'secret');
    expect(await readEviction(client, silentLog)).toBe('hidden');
    client.disconnect();
    expect(await readEviction(client, silentLog)).toBe('no answer');
  });

  it('can have a user that can call every function of the bus, but only for one tenant', async () => {
    const redis = await start();
    const admin = raw(redis);
    const prefix = 'sallyport:{acme}:*';
    await admin.call(
      'ACL',
      'SETUSER',
      'acme',
      'on',
      '>secret',
      `~${prefix}`,
      `&${prefix}`,
      '+@all',
    );
    const bus = await open(`redis://acme:secret@127.0.0.1:${redis.port}`);
    const { seen, follower } = recorder();
    bus.follow('acme', (await bus.load('acme')).at, follower);
    await bus.publish('acme', 'a', '1');
    await bus.claim('acme', 'jti', 1_000);
    await bus.count('acme', 'minute', 1_000);
    const heard: string[] = [];
    bus.subscribe(tenantTopic('acme', 'leases'), (message) => heard.push(message));
    await until(async () => {
      await bus.notify(tenantTopic('acme', 'leases'), 'x');
      return heard.length > 0 && seen.told.length > 0;
    });

    const refused = { code: 'bus.unavailable' };
    await expect(bus.load('acme2')).rejects.toMatchObject(refused);
    await expect(bus.read('other', 'a')).rejects.toMatchObject(refused);
    await expect(bus.publish('other', 'a', '1')).rejects.toMatchObject(refused);
    await expect(bus.claim('other', 'jti', 1_000)).rejects.toMatchObject(refused);
    await expect(bus.notify(tenantTopic('other', 'leases'), 'x')).rejects.toMatchObject(refused);
    expect((await admin.keys('*')).filter((key) => !key.startsWith('sallyport:{acme}:'))).toEqual(
      [],
    );
  });

  it('stores all keys of a tenant in one cluster slot', () => {
    const keys = tenantKeys('tenant}with{braces');
    const all = [keys.stream, keys.index, keys.epoch, keys.section('a'), keys.claim('}')];
    expect(new Set([...all, keys.counter('{b}')].map(slotText)).size).toBe(1);
  });

  it('receives the bus’s scripts again after it lost them', async () => {
    const redis = await start();
    const bus = await open(redis.url);
    await bus.claim('t', 'a', 1_000);
    await raw(redis).script('FLUSH');
    expect((await bus.claim('t', 'b', 1_000)).status).toBe('claimed');
  });
});

/**
 * Returns the part of a key that determines its slot: the text within its first pair of braces
 * (Redis Cluster specification).
 */
function slotText(key: string): string {
  const begin = key.indexOf('{');
  const end = key.indexOf('}', begin);
  return key.slice(begin, end);
}
