import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Store } from '../../../control-plane/platform/store/open.ts';
import { idTimeMs } from '../../../shared/base/ids.ts';
import { tenantTopic } from '../../../shared/bus/tenant-keys.ts';
import { leaseTopic } from '../../../shared/sync/sections.ts';
import { until } from '../../support/base/until.ts';
import { openTestStore } from '../../support/control-plane/sync-world.ts';
import { freshDatabase } from '../../support/programs/postgres.ts';
import {
  endStage,
  openReplicaOf,
  own,
  ownSection,
  passportOf,
  recorded,
  type SectionStage,
  sectionStage,
  sidecarId,
} from './section-stage.ts';

let database: Awaited<ReturnType<typeof freshDatabase>>;
let store: Store;
let stage: SectionStage;

beforeAll(async () => {
  database = await freshDatabase();
  store = await openTestStore(database.url);
});
afterAll(async () => {
  await store.close();
  await database.drop();
});
beforeEach(async () => {
  stage = await sectionStage(store);
});
afterEach(() => endStage(stage));

const lease = async () => passportOf(stage, (await ownSection(stage)).body.lease);

describe('a lease', () => {
  it('is stored, recorded, and issued to a live sidecar for its agent, user and audience', async () => {
    await stage.running.round();
    const claims = await lease();
    const nowSeconds = Math.floor(stage.clock.now() / 1000);
    expect(claims).toMatchObject({
      iss: 'sallyport',
      sub: stage.agentId,
      user_id: 'ann',
      aud: 'sidecar://sc_1',
      tenant_id: stage.world.tenantId,
      goal: 'pay bills',
      allowed_tools: ['pay.*'],
      allowed_resources: [],
      approval_hash: null,
      lease_size: 10_000_000,
      iat: nowSeconds,
      exp: nowSeconds + 300,
    });
    expect(idTimeMs(claims.jti)).toBe(stage.clock.now());
    const row = await store.db.passport.findFirstOrThrow({ where: { jti: claims.jti } });
    expect(row).toMatchObject({
      kind: 'lease',
      agentId: stage.agentId,
      sidecarId,
      audience: 'sidecar://sc_1',
    });
    expect(row.expiresAt.getTime()).toBe(claims.exp * 1000);
    expect(await recorded(store)).toMatchObject([
      { type: 'passport.issued', chain_id: `agent:${stage.agentId}`, data: { jti: claims.jti } },
    ]);
  });

  it('remains the same for half of its lifetime, and is then replaced', async () => {
    await stage.running.round();
    const first = await lease();
    stage.clock.advance(149_000);
    await stage.running.round();
    expect((await lease()).jti).toBe(first.jti);
    stage.clock.advance(1_000);
    await stage.running.round();
    expect((await lease()).jti).not.toBe(first.jti);
    expect(await store.db.passport.count()).toBe(2);
  });

  it('is issued once, even if several control planes find at the same time that it is due', async () => {
    const others = Array.from({ length: 4 }, () => stage.world.publisher());
    stage.ending.push(...others.map((one) => () => one.close()));
    await Promise.all([stage.running, ...others].map((one) => one.round()));
    expect(await store.db.passport.count({ where: { kind: 'lease' } })).toBe(1);
  });

  it.each([
    ['revoked', () => stage.world.db.sidecar.updateMany({ data: { revokedAt: new Date() } })],
    [
      'not seen for ten minutes',
      () =>
        stage.world.db.sidecar.updateMany({
          data: { enrolledAt: new Date(stage.clock.now() - 600_001) },
        }),
    ],
  ])('is not issued to a sidecar that was %s', async (_what, make) => {
    await make();
    await stage.running.round();
    await store.db.passport.deleteMany();
    await stage.running.round();
    expect(await store.db.passport.count()).toBe(0);
  });

  it.each([
    ['disabled', () => stage.world.db.agent.updateMany({ data: { disabledAt: new Date() } })],
    ['deleted', () => store.db.agent.deleteMany()],
  ])('is neither issued nor published after the agent was %s', async (_what, make) => {
    await stage.running.round();
    await make();
    await stage.world.change(stage.running, [own]);
    await stage.running.round();
    expect((await ownSection(stage)).body.lease).toBeUndefined();
    stage.clock.advance(200_000);
    await stage.running.round();
    expect(await store.db.passport.count()).toBe(1);
  });

  it('is removed when the sidecar is revoked', async () => {
    await stage.running.round();
    await stage.world.change(stage.running, [own, 'revocations'], (tx) =>
      tx.sidecar.updateMany({ data: { revokedAt: new Date(stage.clock.now()) } }),
    );
    await stage.running.round();
    expect((await ownSection(stage)).body).toEqual({ approvals: [], credentialsVersion: 0 });
  });

  it('contains the current capabilities of the agent, under the same jti', async () => {
    await stage.running.round();
    const before = await lease();
    await stage.world.change(stage.running, [own], (tx) =>
      tx.agent.updateMany({ data: { capabilities: ['mail.*'] } }),
    );
    await stage.running.round();
    expect(await lease()).toMatchObject({ jti: before.jti, allowed_tools: ['mail.*'] });
  });

  it('is issued again if a restarted sidecar requests it, but only a limited number of times', async () => {
    await stage.running.round();
    const held = await openReplicaOf(stage);
    expect(held.nextUse()).toBeUndefined();
    await until(() => held.nextUse() !== undefined);
    for (let round = 0; round < 30; round++) {
      await stage.bus.notify(tenantTopic(stage.world.tenantId, leaseTopic), sidecarId);
      await new Promise(setImmediate);
      await stage.running.round();
    }
    expect(await store.db.passport.count({ where: { kind: 'lease' } })).toBe(10);
  });

  it('is not issued for a request that names an unknown sidecar', async () => {
    await stage.running.round();
    await stage.bus.notify(tenantTopic(stage.world.tenantId, leaseTopic), 'sc_2');
    await stage.bus.notify(tenantTopic('other', leaseTopic), sidecarId);
    await stage.running.round();
    expect(await store.db.passport.count()).toBe(1);
  });

  it('from a control plane with a slow clock is still used as the newest lease', async () => {
    await stage.running.round();
    const held = await openReplicaOf(stage);
    stage.clock.setWall(stage.clock.now() - 3_000);
    await until(() => held.nextUse() !== undefined);
  });

  it('remains valid through a rotation of the key that signs it', async () => {
    await stage.running.round();
    const held = await openReplicaOf(stage);
    await until(() => held.nextUse() !== undefined);
    await stage.world.change(stage.running, ['keys'], (tx) =>
      tx.signingKey.updateMany({
        where: { purpose: 'passport' },
        data: { state: 'retired', retiredAt: new Date(stage.clock.now()) },
      }),
    );
    stage.clock.advance(200_000);
    await stage.running.round();
    await until(() => held.passportKeys.size === 2);
    await until(() => held.nextUse()?.claims.exp === Math.floor(stage.clock.now() / 1000) + 300);
    expect(held.refused).toBe(0);
  });
});
