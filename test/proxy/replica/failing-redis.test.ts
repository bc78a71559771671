import { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openReplica } from '../../../proxy/replica/open-replica.ts';
import type { Replica } from '../../../proxy/replica/replica.ts';
import { silentLog } from '../../../shared/base/log.ts';
import type { Bus } from '../../../shared/bus/bus.ts';
import { openBus } from '../../../shared/bus/open.ts';
import { type ManualClock, manualClock } from '../../support/base/manual-clock.ts';
import { until } from '../../support/base/until.ts';
import { startRedis, type TestRedis } from '../../support/programs/redis.ts';
import { startTcpHop, type TcpHop } from '../../support/programs/tcp-hop.ts';
import { PublishedTenant, sidecarId } from '../../support/sidecar/published-tenant.ts';

/**
 * The tests of a replica whose Redis, or the network in front of it, fails. The publisher has its own
 * connection, which works.
 */
let redis: TestRedis;
let admin: Redis;
let hop: TcpHop;
let clock: ManualClock;
let publishing: Bus;
let tenant: PublishedTenant;
let replica: Replica;
const ending: (() => Promise<unknown>)[] = [];

const armed = {
  killSwitches: [{ id: 'k', kind: 'block_tool', tool: 'pay.out', reason: 'incident' }],
} as const;

function connect({ url }: TestRedis): Redis {
  const client = new Redis(url, { maxRetriesPerRequest: null });
  client.on('error', () => {});
  ending.push(async () => client.disconnect());
  return client;
}

async function open(url: string): Promise<Bus> {
  const bus = await openBus({ redisUrl: url, log: silentLog, clock });
  ending.push(() => bus.close());
  return bus;
}

beforeEach(async () => {
  clock = manualClock();
  redis = await startRedis({ settings: ['--repl-diskless-sync-delay', '0'] });
  ending.push(() => redis.stop());
  admin = connect(redis);
  hop = await startTcpHop(redis.url);
  ending.push(() => hop.close());
  publishing = await open(redis.url);
  tenant = new PublishedTenant(publishing, clock);
  await tenant.publishAll();
  replica = await openReplica({
    bus: await open(hop.url),
    tenantId: 'acme',
    sidecarId,
    sectionKeys: tenant.sectionKeys,
    maxStalenessMs: 30_000,
    clock,
    log: silentLog,
  });
  ending.push(() => replica.close());
  expect(replica.freshness().fresh).toBe(true);
});
afterEach(async () => {
  for (const end of ending.splice(0).reverse()) await end();
});

function expectStaleLater(): void {
  clock.advance(30_001);
  expect(() => replica.assertFresh()).toThrow(
    expect.objectContaining({ code: 'policy.update_required' }),
  );
}

async function expectRecovery(by = tenant): Promise<void> {
  await by.publishAll();
  await until(() => replica.freshness().fresh);
  expect(() => replica.assertFresh()).not.toThrow();
}

describe('a replica', () => {
  it('never applies a message partially if its connection is cut, and eventually applies every message', async () => {
    for (const bytes of [0, 1, 40, 300, 700, 1_500]) {
      hop.cutAfterBytes(bytes);
      await tenant.publish('kill_switches', armed);
      await tenant.publish('kill_switches', { killSwitches: [] });
      await until(() => replica.versions().kill_switches === tenant.versions.get('kill_switches'));
    }
    expect(replica.refused).toBe(0);
    await expectRecovery();
  });

  it('tolerates a slow Redis, denies if Redis is too slow, and recovers afterwards', async () => {
    hop.delayMs = 300;
    await tenant.publish('kill_switches', armed);
    await until(() => replica.killSwitches.length === 1);
    hop.delayMs = 5_000;
    await tenant.publish('kill_switches', { killSwitches: [] });
    expect(replica.killSwitches).toEqual(armed.killSwitches);
    expectStaleLater();
    hop.delayMs = 0;
    await expectRecovery();
    expect(replica.killSwitches).toEqual([]);
  });

  it('denies within the staleness limit if Redis stops responding, and recovers afterwards', async () => {
    await admin.call('CLIENT', 'PAUSE', '2500', 'ALL');
    expectStaleLater();
    await until(() =>
      tenant.publish('kill_switches', armed).then(
        () => true,
        () => false,
      ),
    );
    await expectRecovery();
    expect(replica.killSwitches).toEqual(armed.killSwitches);
  });

  it('keeps its state while Redis is full, denies within the staleness limit, and gets the missed changes afterwards', async () => {
    await admin.config('SET', 'maxmemory', '1');
    await expect(tenant.publish('kill_switches', armed)).rejects.toMatchObject({
      code: 'bus.unavailable',
    });
    expectStaleLater();
    await admin.config('SET', 'maxmemory', '0');
    await expectRecovery();
    expect(replica.killSwitches).toEqual(armed.killSwitches);
  });

  it('does not return to older state after a failover to a server without the newest changes', async () => {
    const second = await startRedis({ settings: ['--replicaof', `127.0.0.1 ${redis.port}`] });
    ending.push(() => second.stop());
    const promoted = connect(second);
    await until(async () => (await promoted.info('replication')).includes('link_status:up'));
    await promoted.replicaof('127.0.0.1', 1);
    await tenant.publish('kill_switches', armed);
    await tenant.beat();
    await until(() => replica.killSwitches.length === 1 && replica.freshness().fresh);

    await redis.kill();
    await promoted.replicaof('NO', 'ONE');
    hop.leadTo(second.url);
    await until(() => replica.refused > 0);
    expect(replica.killSwitches).toEqual(armed.killSwitches);
    expectStaleLater();

    const onward = new PublishedTenant(await open(second.url), clock);
    Object.assign(onward, {
      key: tenant.key,
      passportKey: tenant.passportKey,
      bodies: tenant.bodies,
      versions: tenant.versions,
      tokens: tenant.tokens,
      sequence: tenant.sequence,
    });
    await expectRecovery(onward);
    expect(replica.killSwitches).toEqual(armed.killSwitches);
  });
});
