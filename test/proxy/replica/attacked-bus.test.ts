import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openReplica } from '../../../proxy/replica/open-replica.ts';
import type { Replica } from '../../../proxy/replica/replica.ts';
import { silentLog } from '../../../shared/base/log.ts';
import type { Bus } from '../../../shared/bus/bus.ts';
import { openBus } from '../../../shared/bus/open.ts';
import { tenantKeys } from '../../../shared/bus/tenant-keys.ts';
import { sidecarSection } from '../../../shared/sync/sections.ts';
import { type ManualClock, manualClock } from '../../support/base/manual-clock.ts';
import { until } from '../../support/base/until.ts';
import { startRedis, type TestRedis } from '../../support/programs/redis.ts';
import { PublishedTenant, sidecarId } from '../../support/sidecar/published-tenant.ts';

/**
 * These tests check that the sidecar does not trust the bus. They use a real Redis to which an attacker can
 * write.
 */
let redis: TestRedis;
let attacker: Redis;
let clock: ManualClock;
let bus: Bus;
let tenant: PublishedTenant;
let replica: Replica;

const armed = {
  killSwitches: [{ id: 'k', kind: 'block_tool', tool: 'pay.out', reason: 'incident' }],
} as const;
const disarmed = { killSwitches: [] };

beforeAll(async () => {
  redis = await startRedis();
  attacker = new Redis(redis.url, { maxRetriesPerRequest: null });
  // Some tests stop the server; its clients reconnect by themselves.
  attacker.on('error', () => {});
});
afterAll(async () => {
  attacker.disconnect();
  await redis.stop();
});

beforeEach(async () => {
  await attacker.flushall();
  clock = manualClock();
  bus = await openBus({ redisUrl: redis.url, log: silentLog, clock });
  tenant = new PublishedTenant(bus, clock);
  await tenant.publishAll();
  replica = await openReplica({
    bus,
    tenantId: 'acme',
    sidecarId,
    sectionKeys: tenant.sectionKeys,
    maxStalenessMs: 30_000,
    clock,
    log: silentLog,
  });
  expect(replica.freshness().fresh).toBe(true);
});
afterEach(async () => {
  await replica.close();
  await bus.close();
});

/** Publishes a text on the bus as a change, and waits until the replica has processed it. */
async function plant(name: string, token: string): Promise<void> {
  const refusedBefore = replica.refused;
  await bus.publish('acme', name, token);
  await until(() => replica.refused > refusedBefore);
}

async function publishAndAwait(body: typeof armed | typeof disarmed): Promise<void> {
  await tenant.publish('kill_switches', body);
  await until(() => replica.versions().kill_switches === tenant.versions.get('kill_switches'));
}

function expectStaleLater(): void {
  clock.advance(30_001);
  expect(() => replica.assertFresh()).toThrow(
    expect.objectContaining({ code: 'policy.update_required' }),
  );
}

async function expectRecovery(): Promise<void> {
  await tenant.publishAll();
  await until(() => replica.freshness().fresh);
  expect(() => replica.assertFresh()).not.toThrow();
}

describe('on a bus that an attacker writes to', () => {
  it.each([
    ['not a token', () => 'open sesame'],
    [
      'signed by a key of the attacker',
      () => new PublishedTenant(bus, clock).sign('kill_switches'),
    ],
    [
      'of another tenant, signed by the right key',
      () => {
        const other = new PublishedTenant(bus, clock, 'other');
        Object.assign(other, { key: tenant.key });
        other.versions.set('kill_switches', 100);
        return other.sign('kill_switches', disarmed);
      },
    ],
    ['the token of another section', () => tenant.sign('bindings')],
    ['a heartbeat', () => tenant.heartbeat()],
    ['a passport', () => tenant.lease()],
  ])('a section that is %s changes nothing', async (_what, make) => {
    await publishAndAwait(armed);
    await plant('kill_switches', make());
    expect(replica.killSwitches).toEqual(armed.killSwitches);
    await expectRecovery();
  });

  it('a restored older section changes nothing, and the replica recovers afterwards', async () => {
    const before = tenant.tokens.get('kill_switches') ?? '';
    await publishAndAwait(armed);
    await plant('kill_switches', before);
    expect(replica.killSwitches).toEqual(armed.killSwitches);
    await expectRecovery();
  });

  it('after sections arrived out of order, the newest one is active', async () => {
    const versions = [1, 2, 3, 4].map(() => tenant.sign('kill_switches', disarmed));
    const newest = tenant.sign('kill_switches', armed);
    await tenant.put('kill_switches', newest);
    await until(() => replica.killSwitches.length === 1);
    for (const token of versions.toReversed()) await plant('kill_switches', token);
    expect(replica.killSwitches).toEqual(armed.killSwitches);
  });

  it('signed content that differs from the current section but reuses its version number is ignored', async () => {
    await publishAndAwait(armed);
    tenant.versions.set('kill_switches', (tenant.versions.get('kill_switches') ?? 0) - 1);
    await plant('kill_switches', tenant.sign('kill_switches', disarmed));
    expect(replica.killSwitches).toEqual(armed.killSwitches);
  });

  it('a dropped change causes denials within the staleness limit, even if heartbeats arrive', async () => {
    tenant.sign('kill_switches', armed);
    for (let second = 0; second < 30; second++) {
      clock.advance(1_000);
      await tenant.beat();
    }
    expect(replica.killSwitches).toEqual([]);
    clock.advance(1_000);
    expect(() => replica.assertFresh()).toThrow(
      expect.objectContaining({ code: 'policy.update_required' }),
    );
    await expectRecovery();
    expect(replica.killSwitches).toEqual(armed.killSwitches);
  });

  it('an old heartbeat in place of the one that reveals a dropped change does not keep the replica fresh', async () => {
    const good = tenant.heartbeat();
    await tenant.put('heartbeat', good);
    tenant.sign('kill_switches', armed);
    for (let second = 0; second < 31; second++) {
      clock.advance(1_000);
      tenant.heartbeat();
      await bus.publish('acme', 'heartbeat', good);
    }
    expect(() => replica.assertFresh()).toThrow(
      expect.objectContaining({ code: 'policy.update_required' }),
    );
    await expectRecovery();
  });

  it('heartbeats that are delayed and replayed later do not keep the replica fresh', async () => {
    const recorded: string[] = [];
    for (let second = 0; second < 60; second++) {
      recorded.push(tenant.heartbeat());
      clock.advance(1_000);
    }
    for (const token of recorded.slice(0, 25)) await bus.publish('acme', 'heartbeat', token);
    await tenant.publish('tenant');
    await until(() => replica.versions().tenant === tenant.versions.get('tenant'));
    expect(() => replica.assertFresh()).toThrow(
      expect.objectContaining({ code: 'policy.update_required' }),
    );
    await expectRecovery();
  });

  it('a heartbeat from the future keeps the replica fresh for no longer than any other heartbeat', async () => {
    await tenant.beat({ time: clock.now() + 86_400_000 });
    await tenant.beat();
    expectStaleLater();
    await expectRecovery();
  });

  it('a replica with only some of the sections allows nothing', async () => {
    await attacker.flushall();
    const shown = ['tenant', 'policies', 'tools', 'agents', 'bindings', 'keys'] as const;
    for (const name of shown) await tenant.publish(name);
    await tenant.beat();
    const other = await openReplica({
      bus,
      tenantId: 'acme',
      sidecarId,
      sectionKeys: tenant.sectionKeys,
      maxStalenessMs: 30_000,
      clock,
      log: silentLog,
    });
    expect(() => other.assertFresh()).toThrow(
      expect.objectContaining({ code: 'sync.no_snapshot' }),
    );
    await other.close();
  });

  it('a delayed revocation causes denials within the staleness limit, even if heartbeats arrive', async () => {
    await tenant.publishOwn({ lease: tenant.lease() });
    await until(() => replica.nextUse() !== undefined);
    const [lease = ''] = (replica.nextUse()?.claims.jti ?? '').split('.');
    tenant.sign('revocations', { jtis: [lease], agentIds: [], sidecarIds: [] });
    for (let second = 0; second < 31; second++) {
      clock.advance(1_000);
      await tenant.beat();
    }
    expect(() => replica.assertFresh()).toThrow(
      expect.objectContaining({ code: 'policy.update_required' }),
    );
    await expectRecovery();
    expect(replica.nextUse()).toMatchObject({ revoked: true });
  });

  it('a delay of the sidecar’s own section does not hide changes of the tenant’s credentials', async () => {
    await tenant.publishOwn({ credentialsVersion: 1 });
    await until(() => replica.credentialsVersion === '0/1');
    tenant.signOwn({ credentialsVersion: 2 });
    await tenant.publish('tenant', { ...tenant.bodies.tenant, credentialsVersion: 7 });
    await until(() => replica.credentialsVersion === '7/1');
  });

  it('neither a forged heartbeat nor a heartbeat of another tenant keeps the replica fresh', async () => {
    const other = new PublishedTenant(bus, clock, 'other');
    Object.assign(other, { key: tenant.key, tokens: tenant.tokens, versions: tenant.versions });
    await plant('heartbeat', other.heartbeat({ sequence: 1_000 }));
    const forger = new PublishedTenant(bus, clock);
    Object.assign(forger, { tokens: tenant.tokens, versions: tenant.versions });
    await plant('heartbeat', forger.heartbeat({ sequence: 1_000 }));
    expectStaleLater();
    await expectRecovery();
  });

  it('another sidecar’s section under the name of this sidecar gives no lease', async () => {
    const foreign = tenant.signOwn({ lease: tenant.lease({ sidecar: 'sc_2' }) }, 'sc_2');
    await plant(sidecarSection(sidecarId), foreign);
    expect(replica.nextUse()).toBeUndefined();
  });

  it('a section that is deleted from the bus stays in the replica, whose age then grows', async () => {
    await publishAndAwait(armed);
    await attacker.del(tenantKeys('acme').section('kill_switches'));
    await attacker.del(tenantKeys('acme').section('heartbeat'));
    expect(replica.killSwitches).toEqual(armed.killSwitches);
    expectStaleLater();
    await expectRecovery();
  });

  it('the removal of an entry from the stream is noticed, and the change that the entry announced is loaded', async () => {
    const { stream, section } = tenantKeys('acme');
    const token = tenant.sign('kill_switches', armed);
    await attacker.set(section('kill_switches'), token);
    const [last] = await attacker.xrevrange(stream, '+', '-', 'COUNT', 1);
    await attacker.xdel(stream, last?.[0] ?? '');
    await until(() => replica.killSwitches.length === 1);
  });

  it('a flush of Redis leaves the replica’s state intact but stale, until the sections are published again', async () => {
    await publishAndAwait(armed);
    await attacker.flushall();
    expect(replica.killSwitches).toEqual(armed.killSwitches);
    expectStaleLater();
    await expectRecovery();
    expect(replica.killSwitches).toEqual(armed.killSwitches);
  });

  it('a restart of Redis without its data leaves the replica’s state intact but stale, until the sections are published again', async () => {
    await publishAndAwait(armed);
    await redis.restart();
    await until(() =>
      bus.ping().then(
        () => true,
        () => false,
      ),
    );
    expect(replica.killSwitches).toEqual(armed.killSwitches);
    expectStaleLater();
    await expectRecovery();
    await publishAndAwait(disarmed);
  });

  it('older state that is restored into an emptied Redis is not loaded', async () => {
    const old = new Map(tenant.tokens);
    const heartbeat = tenant.heartbeat();
    await publishAndAwait(armed);
    await attacker.flushall();
    for (const [name, token] of old) await bus.publish('acme', name, token);
    await bus.publish('acme', 'heartbeat', heartbeat);
    await until(() => replica.refused > 0);
    expect(replica.killSwitches).toEqual(armed.killSwitches);
    expectStaleLater();
    await expectRecovery();
  });

  it('a flood of forged sections is refused, and does not hide a genuine change', async () => {
    const forger = new PublishedTenant(bus, clock);
    for (let round = 0; round < 300; round++) {
      await bus.publish('acme', 'kill_switches', forger.sign('kill_switches'));
    }
    await tenant.publish('kill_switches', armed);
    await until(() => replica.killSwitches.length === 1);
    await tenant.beat();
    await until(() => replica.freshness().fresh);
  });
});
