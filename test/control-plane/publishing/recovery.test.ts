import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openStore } from '../../../control-plane/platform/store/open.ts';
import { systemClock } from '../../../shared/base/clock.ts';
import { type Log, silentLog } from '../../../shared/base/log.ts';
import { openBus } from '../../../shared/bus/open.ts';
import { tenantKeys } from '../../../shared/bus/tenant-keys.ts';
import { generateSigningKey } from '../../../shared/crypto/signing-key.ts';
import { sectionDigest, signSection } from '../../../shared/sync/signed-section.ts';
import { until } from '../../support/base/until.ts';
import { SyncWorld } from '../../support/control-plane/sync-world.ts';
import { denyAll, PublisherStage } from './publisher-stage.ts';

let stage: PublisherStage;
beforeAll(async () => {
  stage = await PublisherStage.open();
});
afterAll(() => stage.close());
beforeEach(() => stage.begin());
afterEach(() => stage.end());

describe('a bus that lost or changed published sections', () => {
  beforeEach(async () => {
    await stage.world.sidecar(`sc-${stage.tenants}`, await stage.world.agent());
  });

  it('is filled again after a flush, with versions that are higher than all earlier versions', async () => {
    const running = stage.publisher({ roundMs: 1 });
    await running.round();
    const held = await stage.replica(`sc-${stage.tenants}`);
    await until(() => held.freshness().fresh);
    await stage.attacker.flushall();
    await running.round();
    await until(() => held.versions().policies === 2);
    await until(() => held.freshness().fresh);
    expect(held.refused).toBe(0);
  });

  it('is filled if a process starts with an empty bus', async () => {
    const first = stage.publisher();
    await first.round();
    await first.close();
    await stage.attacker.flushall();
    await stage.publisher().round();
    expect((await stage.onBus('policies')).version).toBe(2);
  });

  it.each([
    [
      'deleted',
      () => stage.attacker.del(tenantKeys(stage.world.tenantId).section('kill_switches')),
    ],
    [
      'overwritten with invalid text',
      () => stage.bus.publish(stage.world.tenantId, 'kill_switches', 'rubbish'),
    ],
    [
      'forged',
      () => {
        const body = { killSwitches: [] };
        const envelope = {
          tenant: stage.world.tenantId,
          section: 'kill_switches',
          version: 999,
          body,
        };
        return stage.bus.publish(
          stage.world.tenantId,
          'kill_switches',
          signSection(envelope, generateSigningKey()),
        );
      },
    ],
  ])('gets a correct section again if a section was %s', async (_what, tamper) => {
    const running = stage.publisher({ auditMs: 0, roundMs: 1 });
    await running.round();
    await tamper();
    await running.round();
    expect(await stage.onBus('kill_switches')).toMatchObject({
      version: 2,
      body: { killSwitches: [] },
    });
  });

  it('gets a newly signed section if a delayed process published the section with a retired key', async () => {
    const { world } = stage;
    const running = stage.publisher();
    await running.round();
    const { version, body } = await stage.onBus('policies');
    const [before] = await world.signingKeys.history(world.tenantId, 'sync');
    if (before === undefined) throw new Error('no key signed anything');
    await world.rotateSyncKey();
    const section = { tenant: world.tenantId, section: 'policies', version: version + 1, body };
    const token = signSection(section, before);
    await stage.bus.publish(world.tenantId, 'policies', token);
    await world.store.db.syncSection.update({
      where: { tenantId_name: { tenantId: world.tenantId, name: 'policies' } },
      data: { version: version + 1, publishedVersion: version + 1, digest: sectionDigest(token) },
    });
    await running.close();
    await stage.publisher().round();
    expect((await stage.onBus('policies')).version).toBe(version + 2);
  });

  it('gets a correct section with a higher version if an older version was restored', async () => {
    const running = stage.publisher({ auditMs: 0, roundMs: 1 });
    await running.round();
    const old = await stage.onBus('policies');
    await stage.world.change(running, ['policies'], (tx) => stage.world.policy(tx, denyAll(1)));
    await running.round();
    await stage.bus.publish(stage.world.tenantId, 'policies', old.token);
    await running.round();
    expect((await stage.onBus('policies')).version).toBe(3);
    expect((await stage.onBus('policies')).body.policies).toHaveLength(1);
  });

  it('gets higher versions than before if the database was rolled back', async () => {
    const running = stage.publisher({ auditMs: 0, roundMs: 1 });
    await running.round();
    for (let round = 1; round <= 5; round++) {
      await stage.world.change(running, ['policies'], (tx) =>
        stage.world.policy(tx, denyAll(round)),
      );
      await running.round();
    }
    const held = await stage.replica(`sc-${stage.tenants}`);
    await until(() => held.freshness().fresh);
    const sequence = (await stage.heartbeat()).sequence;
    await stage.store.db.syncSection.updateMany({
      where: { tenantId: stage.world.tenantId },
      data: { version: 1, publishedVersion: 1, digest: 'of the text published then' },
    });
    await stage.store.db.policy.deleteMany({
      where: { tenantId: stage.world.tenantId, definitionId: 'deny-5' },
    });
    await running.round();
    await running.round();
    await until(() => held.policies.size === 4);
    await until(async () => {
      await running.round();
      return (await stage.heartbeat()).sequence > sequence && held.freshness().fresh;
    });
    expect(held.refused).toBe(0);
  });
});

describe('a failure to publish', () => {
  it('is logged when it begins and when it ends, not in every round', async () => {
    const lines: string[] = [];
    const note = (fields: object, message: string) => {
      const isMine = 'what' in fields && fields.what === `tenant ${stage.world.tenantId}`;
      if (isMine) lines.push(message);
    };
    const log: Log = {
      ...silentLog,
      error: note,
      info: note,
    };
    const running = stage.publisher({ log });
    await running.round();
    await stage.redis.kill();
    await stage.world.change(running, ['policies']);
    await running.round();
    await running.round();
    await stage.redis.restart();
    await until(async () => {
      await running.round();
      return lines.length >= 2;
    });
    expect(lines).toEqual(['publishing failed; the next round retries', 'publishing works again']);
  });
});

describe('a publisher with the embedded database and the in-process bus', () => {
  it('publishes a change to the replica, and fills the empty bus after a restart', async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'sallyport-sync-'));
    stage.endWith(() => rm(dataDir, { recursive: true }));
    const embedded = await openStore({ databaseUrl: undefined, dataDir, log: silentLog });
    stage.endWith(() => embedded.close());
    const openMemory = async () => {
      const memory = await openBus({ redisUrl: undefined, log: silentLog, clock: systemClock });
      stage.endWith(() => memory.close());
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
