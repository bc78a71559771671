import { Redis } from 'ioredis';
import { afterEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../shared/base/clock.ts';
import { newId } from '../../../shared/base/ids.ts';
import { silentLog } from '../../../shared/base/log.ts';
import type { Bus } from '../../../shared/bus/bus.ts';
import { openBus } from '../../../shared/bus/open.ts';
import { claimPassport } from '../../../shared/passport/single-use-claim.ts';
import { until } from '../../support/base/until.ts';
import { startRedis, type TestRedis } from '../../support/programs/redis.ts';
import { startTcpHop } from '../../support/programs/tcp-hop.ts';

const ending: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ending.splice(0).reverse()) await end();
});

async function start(...settings: readonly string[]): Promise<TestRedis> {
  const redis = await startRedis({ settings });
  ending.push(() => redis.stop());
  return redis;
}

function raw(redis: TestRedis): Redis {
  const client = new Redis(redis.url);
  client.on('error', () => {});
  ending.push(async () => client.disconnect());
  return client;
}

/** Starts a server and its replica behind one address, as with Sentinel or a hosted service. */
async function startPair() {
  const first = await start('--repl-diskless-sync-delay', '0');
  const second = await start('--replicaof', `127.0.0.1 ${first.port}`);
  const replica = raw(second);
  await until(async () => (await replica.info('replication')).includes('master_link_status:up'));
  const hop = await startTcpHop(first.url);
  ending.push(() => hop.close());
  return {
    hop,
    first: raw(first),
    replica,
    /** Stops the replication: later writes do not reach the replica. */
    cutReplication: () => replica.replicaof('127.0.0.1', 1),
    /** Kills the first server and promotes its replica. */
    async failOver() {
      await first.kill();
      await replica.replicaof('NO', 'ONE');
      hop.leadTo(second.url);
    },
  };
}

async function open(url: string): Promise<Bus> {
  const bus = await openBus({ redisUrl: url, log: silentLog, clock: systemClock });
  ending.push(() => bus.close());
  return bus;
}

function use(jti: string, bus: Bus) {
  return claimPassport(
    { jti, expiresAtMs: Date.now() + 60_000, durable: false },
    {
      bus,
      tenantId: 't',
      nowMs: Date.now(),
      claimDurably: async () => true,
      onFailure: () => {},
    },
  );
}

async function answers(bus: Bus): Promise<void> {
  await until(() =>
    bus.ping().then(
      () => true,
      () => false,
    ),
  );
}

describe('the bus with a Redis replica', () => {
  it('refuses a passport whose claim was not replicated before the failover', async () => {
    const pair = await startPair();
    const bus = await open(pair.hop.url);
    // An earlier claim gives the replica the epoch. The replica then lacks only the newest writes.
    await use(newId('pp', Date.now()), bus);
    await until(async () => (await pair.replica.dbsize()) === 2);
    await pair.cutReplication();
    const jti = newId('pp', Date.now());
    expect(await use(jti, bus)).toBe('claimed');
    await pair.failOver();
    await answers(bus);
    expect(await pair.replica.exists(`sallyport:{t}:claim:jti:${jti}`)).toBe(0);
    expect(await use(jti, bus)).toBe('unavailable');
    expect(await use(jti, bus)).not.toBe('claimed');
  });

  it('accepts a passport once if it was issued after the failover, and refuses a passport that was used before the failover', async () => {
    const pair = await startPair();
    const bus = await open(pair.hop.url);
    const used = newId('pp', Date.now());
    await use(used, bus);
    await until(async () => (await pair.replica.dbsize()) === 2);
    await pair.failOver();
    await answers(bus);
    expect(await use(used, bus)).toBe('replayed');
    const failedOverAtMs = Date.now();
    await until(() => Date.now() > failedOverAtMs);
    const fresh = newId('pp', Date.now());
    expect([await use(fresh, bus), await use(fresh, bus)]).toEqual(['claimed', 'replayed']);
  });

  it('refuses claims on the replica before its promotion', async () => {
    const pair = await startPair();
    const second = await open(`redis://127.0.0.1:${pair.replica.options.port}`);
    expect(await use(newId('pp', Date.now()), second)).toBe('unavailable');
  });

  it('refuses passports issued before a restart in which Redis loaded an older file', async () => {
    const redis = await startRedis({ persistent: true });
    ending.push(() => redis.stop());
    const bus = await open(redis.url);
    await use(newId('pp', Date.now()), bus);
    const jti = newId('pp', Date.now());
    await use(jti, bus);
    // Deletes the claim, as a crash between two syncs of the file would.
    await raw(redis).del(`sallyport:{t}:claim:jti:${jti}`);
    await redis.restart();
    await answers(bus);
    expect(await use(jti, bus)).toBe('unavailable');
  });
});
