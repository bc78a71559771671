import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openStore, type Store } from '../../../control-plane/store/open.ts';
import type { PublisherDeps, RunningPublisher } from '../../../control-plane/sync/publisher.ts';
import type { Replica } from '../../../proxy/replica/replica.ts';
import type { Bus } from '../../../shared/bus/bus.ts';
import { openBus } from '../../../shared/bus/open.ts';
import { tenantKeys } from '../../../shared/bus/tenant-keys.ts';
import { systemClock } from '../../../shared/clock.ts';
import { generateSigningKey } from '../../../shared/crypto/signing-key.ts';
import { type Log, silentLog } from '../../../shared/log.ts';
import { type SectionName, sidecarSection, tenantSections } from '../../../shared/sync/sections.ts';
import { openHeartbeat } from '../../../shared/sync/signed-heartbeat.ts';
import { openSection, sectionDigest, signSection } from '../../../shared/sync/signed-section.ts';
import { freshDatabase } from '../../support/postgres.ts';
import { startRedis, type TestRedis } from '../../support/redis.ts';
import { openTestStore, SyncWorld } from '../../support/sync-world.ts';
import { until } from '../../support/until.ts';

const denyAll = (version: number) => ({
  id: `deny-${version}`,
  version,
  rules: [
    {
      name: 'never',
      decision: 'deny' as const,
      reason: 'not.today',
      when: { all: [{ path: 'tool.name', operator: '!=' as const, value: 'x' }] },
    },
  ],
});

let redis: TestRedis;
let attacker: Redis;
let database: Awaited<ReturnType<typeof freshDatabase>>;
let store: Store;
let bus: Bus;
let world: SyncWorld;
let tenants = 0;
const ending: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  redis = await startRedis();
  attacker = new Redis(redis.url);
  // The server goes down in some tests; its clients come back by themselves.
  attacker.on('error', () => {});
  database = await freshDatabase();
  store = await openTestStore(database.url);
});
afterAll(async () => {
  attacker.disconnect();
  await store.close();
  await database.drop();
  await redis.stop();
});
beforeEach(async () => {
  bus = await openBus({ redisUrl: redis.url, log: silentLog, clock: systemClock });
  // One tenant after the other in one database: what is left of the others must not matter.
  await store.db.sidecar.updateMany({ data: { revokedAt: new Date() } });
  world = await SyncWorld.open({ store, bus, tenantId: `tenant-${++tenants}` });
});
afterEach(async () => {
  for (const end of ending.splice(0).reverse()) await end();
  await bus.close();
});

function publisher(change: Partial<PublisherDeps> = {}): RunningPublisher {
  const running = world.publisher(change);
  ending.push(() => running.close());
  return running;
}

async function replica(sidecarId: string): Promise<Replica> {
  const opened = await world.replica(sidecarId);
  ending.push(() => opened.close());
  return opened;
}

async function onBus<Name extends SectionName>(name: Name) {
  const token = (await bus.read(world.tenantId, name)) ?? '';
  const expected = { tenant: world.tenantId, section: name };
  const opened = openSection(token, await world.sectionKeys(), expected);
  if (!opened.ok) throw new Error(`${name}: ${opened.detail}`);
  return { ...opened.envelope, token };
}

async function heartbeat() {
  const token = (await bus.read(world.tenantId, 'heartbeat')) ?? '';
  const opened = openHeartbeat(token, await world.sectionKeys(), { tenant: world.tenantId });
  if (!opened.ok) throw new Error(opened.detail);
  return opened.heartbeat;
}

async function row(name: string) {
  const rows = await world.versions();
  return rows.find((one) => one.name === name);
}

describe('the publisher', () => {
  it('publishes every section of a new tenant', async () => {
    await publisher().round();
    for (const name of tenantSections) expect((await onBus(name)).version).toBe(1);
    expect((await onBus('tenant')).body).toEqual({
      id: world.tenantId,
      name: world.tenantId,
      mode: 'enforce',
    });
    expect((await onBus('keys')).body.passportKeys).toHaveLength(1);
  });

  it('carries a committed change, and not one that was rolled back', async () => {
    const running = publisher();
    await running.round();
    await world.change(running, ['policies'], (tx) => world.policy(tx, denyAll(1)));
    await world
      .change(running, ['policies'], async (tx) => {
        await world.policy(tx, denyAll(2));
        throw new Error('rolled back');
      })
      .catch(() => {});
    await running.round();
    const { version, body } = await onBus('policies');
    expect(version).toBe(2);
    expect(body.policies.map(({ definition }) => definition.id)).toEqual(['deny-1']);
  });

  it('carries changes until the bus takes them', async () => {
    const running = publisher();
    await running.round();
    await redis.kill();
    await world.change(running, ['policies'], (tx) => world.policy(tx, denyAll(1)));
    await running.round();
    expect(await row('policies')).toMatchObject({ version: 2n, publishedVersion: 1n });
    await redis.restart();
    await until(async () => {
      await running.round();
      return (await row('policies'))?.publishedVersion === (await row('policies'))?.version;
    });
    expect((await onBus('policies')).body.policies).toHaveLength(1);
  });

  it('says what each section holds, and nothing of another tenant', async () => {
    const other = await SyncWorld.open({ store, bus, tenantId: `${world.tenantId}-other` });
    for (const one of [world, other]) {
      const { tenantId } = one;
      const { db } = store;
      await db.$transaction(async (tx) => {
        await one.policy(tx, denyAll(1));
        await one.binding(tx, { name: 'pay', protocol: 'http', host: 'pay.example', body: 'json' });
        await tx.directoryUser.create({ data: { tenantId, id: 'ann', email: 'ann@example.com' } });
        await tx.killSwitch.createMany({
          data: [
            {
              id: `${tenantId} armed`,
              tenantId,
              kind: 'block_tool',
              tool: 'x',
              reason: 'r',
              armedBy: 'a',
            },
            {
              id: `${tenantId} over`,
              tenantId,
              kind: 'block_tool',
              tool: 'x',
              reason: 'r',
              armedBy: 'a',
              expiresAt: new Date(1),
            },
            {
              id: `${tenantId} off`,
              tenantId,
              kind: 'block_tool',
              tool: 'x',
              reason: 'r',
              armedBy: 'a',
              disarmedAt: new Date(),
            },
            {
              id: `${tenantId} mode`,
              tenantId,
              kind: 'force_mode',
              mode: 'strict',
              reason: 'r',
              armedBy: 'a',
            },
          ],
        });
        await tx.passportRevocation.createMany({
          data: [
            {
              tenantId,
              jti: `${tenantId}-later`,
              revokedBy: 'a',
              expiresAt: new Date(Date.now() + 60_000),
            },
            { tenantId, jti: `${tenantId}-over`, revokedBy: 'a', expiresAt: new Date(1) },
            { tenantId, jti: `${tenantId}-unknown`, revokedBy: 'a' },
          ],
        });
        await tx.tool.create({
          data: {
            tenantId,
            name: 'pay.out',
            manifestHash: 'm2',
            approvedHash: 'm1',
            approvalStatus: 'approved',
            riskTier: 'odd',
          },
        });
        const manifest = JSON.stringify({ name: 'pay.out', inputSchema: { type: 'object' } });
        await tx.toolVersion.create({
          data: {
            tenantId,
            name: 'pay.out',
            hash: 'm1',
            surfaceHash: 's1',
            manifest,
            ingestedBy: 'a',
          },
        });
      });
      await one.agent();
      const disabled = await one.agent('gone');
      await db.agent.update({ where: { id: Number(disabled) }, data: { disabledAt: new Date() } });
    }
    await publisher().round();
    const { tenantId } = world;
    expect((await onBus('policies')).body.policies).toHaveLength(1);
    expect((await onBus('bindings')).body.bindings).toEqual([
      { name: 'pay', protocol: 'http', host: 'pay.example', body: 'json' },
    ]);
    expect((await onBus('kill_switches')).body.killSwitches).toEqual([
      { id: `${tenantId} armed`, kind: 'block_tool', tool: 'x', reason: 'r' },
      { id: `${tenantId} mode`, kind: 'force_mode', mode: 'strict', reason: 'r' },
    ]);
    expect((await onBus('tools')).body.tools).toEqual([
      {
        name: 'pay.out',
        manifestHash: 'm2',
        approvedHash: 'm1',
        approvedSurfaceHash: 's1',
        approvalStatus: 'approved',
        riskTier: 'critical',
        inputSchema: { type: 'object' },
      },
    ]);
    const { agents, users } = (await onBus('agents')).body;
    expect(agents.map(({ name, goal }) => `${name}: ${goal}`)).toEqual(['bot: pay bills']);
    expect(users).toEqual([{ id: 'ann', email: 'ann@example.com' }]);
    const { jtis, agentIds } = (await onBus('revocations')).body;
    expect(jtis).toEqual([`${tenantId}-later`, `${tenantId}-unknown`]);
    expect(agentIds).toHaveLength(1);
  });

  it('a binding that somebody wrote into the database stops its section, and with it the heartbeat', async () => {
    const agentId = await world.agent();
    await world.sidecar(`sc-${tenants}`, agentId);
    const running = publisher({ roundMs: 1 });
    await running.round();
    const before = await onBus('bindings');
    await world.change(running, ['bindings', 'policies'], async (tx) => {
      await world.policy(tx, denyAll(1));
      await world.binding(tx, { name: 'evil', protocol: 'passthrough', host: 'evil.example' });
      await tx.binding.updateMany({ where: { tenantId: world.tenantId }, data: { mac: 'forged' } });
    });
    await running.round();
    const last = (await heartbeat()).sequence;
    await running.round();
    await running.round();
    expect((await onBus('bindings')).version).toBe(before.version);
    expect((await onBus('policies')).version).toBe(2);
    expect((await heartbeat()).sequence).toBe(last);
  });
});

describe('several publishers at once', () => {
  it('the last version on the bus is the highest, and the database knows its digest', async () => {
    const second = await openBus({ redisUrl: redis.url, log: silentLog, clock: systemClock });
    ending.push(() => second.close());
    const running = [publisher(), publisher({ bus: second }), publisher({ bus: second })];
    await Promise.all(running.map((one) => one.round()));
    for (let round = 1; round <= 15; round++) {
      await world.change(running[round % 3] as RunningPublisher, ['policies'], (tx) =>
        world.policy(tx, denyAll(round)),
      );
      for (const one of running) one.nudge();
    }
    await Promise.all(running.map((one) => one.round()));
    const { version, body, token } = await onBus('policies');
    expect(version).toBe(16);
    expect(body.policies).toHaveLength(15);
    const stored = await store.db.syncSection.findUniqueOrThrow({
      where: { tenantId_name: { tenantId: world.tenantId, name: 'policies' } },
    });
    expect(stored).toMatchObject({
      version: 16n,
      publishedVersion: 16n,
      digest: sectionDigest(token),
    });
  });

  it('a publisher that was held up puts no older version over a newer one', async () => {
    const [slow, fast] = [publisher(), publisher()];
    await slow.round();
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    let reached = () => {};
    const reading = new Promise<void>((resolve) => {
      reached = resolve;
    });
    // The slow one stops after it built and judged, just before it writes.
    const stalled: Bus = Object.assign(Object.create(bus), {
      read: (...args: Parameters<Bus['read']>) => bus.read(...args),
      load: (...args: Parameters<Bus['load']>) => bus.load(...args),
      subscribe: (...args: Parameters<Bus['subscribe']>) => bus.subscribe(...args),
      replace: async (...args: Parameters<Bus['replace']>) => {
        if (args[1] === 'policies') {
          reached();
          await held;
        }
        return bus.replace(...args);
      },
    });
    const stalling = publisher({ bus: stalled });
    await stalling.round();
    await world.change(stalling, ['policies'], (tx) => world.policy(tx, denyAll(1)));
    const stuck = stalling.round();
    await reading;
    await world.change(fast, ['policies'], (tx) => world.policy(tx, denyAll(2)));
    await fast.round();
    expect((await onBus('policies')).version).toBe(3);
    release();
    await stuck;
    expect((await onBus('policies')).version).toBe(3);
    expect(await row('policies')).toMatchObject({ version: 3n, publishedVersion: 3n });
  });

  it('heartbeats have one strictly rising sequence, from whichever process', async () => {
    await world.sidecar(`sc-${tenants}`, await world.agent());
    const seen: number[] = [];
    const keys = await world.sectionKeys();
    const subscription = bus.follow(world.tenantId, (await bus.load(world.tenantId)).at, {
      wants: (name) => name === 'heartbeat',
      onGap() {},
      onChange: ({ value }) => {
        const opened = openHeartbeat(value, keys, { tenant: world.tenantId });
        if (opened.ok) seen.push(opened.heartbeat.sequence);
      },
    });
    ending.push(() => subscription.close());
    const running = [
      publisher({ roundMs: 5 }),
      publisher({ roundMs: 5 }),
      publisher({ roundMs: 5 }),
    ];
    await until(() => seen.length > 40);
    await Promise.all(running.map((one) => one.close()));
    const later = publisher({ roundMs: 5 });
    const lastSeen = Math.max(...seen);
    await until(() => Math.max(...seen) > lastSeen + 5);
    await later.close();
    // A follower may be shown the same heartbeat twice, never one from before.
    expect(seen).toEqual(seen.toSorted((a, b) => a - b));
  });
});

describe('a heartbeat', () => {
  it('names every section with the version and digest that stand on the bus', async () => {
    await world.sidecar(`sc-${tenants}`, await world.agent());
    await publisher().round();
    const { sections, time } = await heartbeat();
    expect(Math.abs(Date.now() - time)).toBeLessThan(10_000);
    expect(Object.keys(sections).sort()).toEqual([...tenantSections].sort());
    for (const name of tenantSections) {
      const { version, token } = await onBus(name);
      expect(sections[name]).toEqual({ version, digest: sectionDigest(token) });
    }
  });

  it('is not given for a tenant without live sidecars', async () => {
    const agentId = await world.agent();
    await world.sidecar(`sc-${tenants}`, agentId);
    await store.db.sidecar.updateMany({
      where: { tenantId: world.tenantId },
      data: { enrolledAt: new Date(Date.now() - 11 * 60_000) },
    });
    const running = publisher({ roundMs: 1 });
    await running.round();
    expect(await bus.read(world.tenantId, 'heartbeat')).toBeUndefined();
    await store.db.sidecar.updateMany({
      where: { tenantId: world.tenantId },
      data: { lastSeenAt: new Date() },
    });
    await running.round();
    expect((await heartbeat()).sequence).toBeGreaterThan(0);
  });
});

describe('a bus that lost or changed what was published', () => {
  beforeEach(async () => {
    await world.sidecar(`sc-${tenants}`, await world.agent());
  });

  it('is filled again after a flush, above every version that was out', async () => {
    const running = publisher({ roundMs: 1 });
    await running.round();
    const held = await replica(`sc-${tenants}`);
    await until(() => held.freshness().fresh);
    await attacker.flushall();
    await running.round();
    await until(() => held.versions().policies === 2);
    await until(() => held.freshness().fresh);
    expect(held.refused).toBe(0);
  });

  it('is filled when a process starts with an empty bus', async () => {
    const first = publisher();
    await first.round();
    await first.close();
    await attacker.flushall();
    await publisher().round();
    expect((await onBus('policies')).version).toBe(2);
  });

  it.each([
    ['deleted', () => attacker.del(tenantKeys(world.tenantId).section('kill_switches'))],
    ['overwritten with rubbish', () => bus.publish(world.tenantId, 'kill_switches', 'rubbish')],
    [
      'forged',
      () => {
        const body = { killSwitches: [] };
        const envelope = { tenant: world.tenantId, section: 'kill_switches', version: 999, body };
        return bus.publish(
          world.tenantId,
          'kill_switches',
          signSection(envelope, generateSigningKey()),
        );
      },
    ],
  ])('a section that was %s is put right', async (_what, tamper) => {
    const running = publisher({ auditMs: 0, roundMs: 1 });
    await running.round();
    await tamper();
    await running.round();
    expect(await onBus('kill_switches')).toMatchObject({ version: 2, body: { killSwitches: [] } });
  });

  it('an older version put back is put right, above all versions', async () => {
    const running = publisher({ auditMs: 0, roundMs: 1 });
    await running.round();
    const old = await onBus('policies');
    await world.change(running, ['policies'], (tx) => world.policy(tx, denyAll(1)));
    await running.round();
    await bus.publish(world.tenantId, 'policies', old.token);
    await running.round();
    expect((await onBus('policies')).version).toBe(3);
    expect((await onBus('policies')).body.policies).toHaveLength(1);
  });

  it('a database that was set back catches up with what is out', async () => {
    const running = publisher({ auditMs: 0, roundMs: 1 });
    await running.round();
    for (let round = 1; round <= 5; round++) {
      await world.change(running, ['policies'], (tx) => world.policy(tx, denyAll(round)));
      await running.round();
    }
    const held = await replica(`sc-${tenants}`);
    await until(() => held.freshness().fresh);
    const sequence = (await heartbeat()).sequence;
    await store.db.syncSection.updateMany({
      where: { tenantId: world.tenantId },
      data: { version: 1, publishedVersion: 1, digest: 'of the text published then' },
    });
    await store.db.policy.deleteMany({
      where: { tenantId: world.tenantId, definitionId: 'deny-5' },
    });
    await running.round();
    await running.round();
    await until(() => held.policies.size === 4);
    await until(async () => {
      await running.round();
      return (await heartbeat()).sequence > sequence && held.freshness().fresh;
    });
    expect(held.refused).toBe(0);
  });
});

describe('what goes wrong', () => {
  it('is logged when it begins and when it ends, not each time', async () => {
    const lines: string[] = [];
    const note = (fields: object, message: string) => {
      const isMine = 'what' in fields && fields.what === `tenant ${world.tenantId}`;
      if (isMine) lines.push(message);
    };
    const log: Log = {
      ...silentLog,
      error: note,
      info: note,
    };
    const running = publisher({ log });
    await running.round();
    await redis.kill();
    await world.change(running, ['policies']);
    await running.round();
    await running.round();
    await redis.restart();
    await until(async () => {
      await running.round();
      return lines.length >= 2;
    });
    expect(lines).toEqual(['publishing failed; trying again', 'publishing works again']);
  });
});

describe('on the embedded database and the bus of one process', () => {
  it('a change reaches the replica, and a restart fills the empty bus again', async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'sallyport-sync-'));
    ending.push(() => rm(dataDir, { recursive: true }));
    const embedded = await openStore({ databaseUrl: undefined, dataDir, log: silentLog });
    ending.push(() => embedded.close());
    const openMemory = async () => {
      const memory = await openBus({ redisUrl: undefined, log: silentLog, clock: systemClock });
      ending.push(() => memory.close());
      return memory;
    };
    const memory = await openMemory();
    const here = await SyncWorld.open({ store: embedded, bus: memory });
    const running = here.publisher({ roundMs: 20 });
    await here.sidecar('sc_1', await here.agent());
    const held = await here.replica('sc_1');
    await until(() => held.freshness().fresh);
    await here.change(running, ['policies'], (tx) => here.policy(tx, denyAll(1)));
    running.nudge();
    await until(() => held.policies.size === 1);
    await until(() => held.nextUse() !== undefined);
    await running.close();
    await held.close();

    const emptied = await openMemory();
    const again = here.publisher({ roundMs: 20, bus: emptied });
    const fresh = await here.replica('sc_1', emptied);
    await until(() => fresh.freshness().fresh && fresh.policies.size === 1);
    await until(() => fresh.nextUse() !== undefined);
    await again.close();
    await fresh.close();
  });
});

describe('a sidecar’s own section', () => {
  it('is not on the bus for a sidecar that never was', async () => {
    const running = publisher();
    await world.change(running, [sidecarSection('nobody')]);
    await running.round();
    expect((await onBus(sidecarSection('nobody'))).body).toEqual({
      approvals: [],
      credentialsVersion: 0,
    });
  });
});
