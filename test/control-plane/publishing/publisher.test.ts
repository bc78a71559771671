import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { manifestHash, surfaceHash } from '../../../shared/manifest/hash.ts';
import { sidecarSection, tenantSections } from '../../../shared/sync/sections.ts';
import { sectionDigest } from '../../../shared/sync/signed-section.ts';
import { until } from '../../support/base/until.ts';
import { handSigned } from '../../support/control-plane/hand-signed.ts';
import { SyncWorld } from '../../support/control-plane/sync-world.ts';
import { denyAll, PublisherStage } from './publisher-stage.ts';

const shown = { name: 'pay.out', inputSchema: { type: 'object' } };
const approved = {
  manifest: shown,
  hash: manifestHash(shown as never),
  surface: surfaceHash(shown as never),
};

let stage: PublisherStage;
beforeAll(async () => {
  stage = await PublisherStage.open();
});
afterAll(() => stage.close());
beforeEach(() => stage.begin());
afterEach(() => stage.end());

describe('the publisher', () => {
  it('publishes every section of a new tenant', async () => {
    await stage.publisher().round();
    for (const name of tenantSections) expect((await stage.onBus(name)).version).toBe(1);
    expect((await stage.onBus('tenant')).body).toEqual({
      id: stage.world.tenantId,
      name: stage.world.tenantId,
      credentialsVersion: 0,
      mode: 'enforce',
    });
    expect((await stage.onBus('keys')).body.passportKeys).toHaveLength(1);
  });

  it('publishes a change that was committed, but not one that was rolled back', async () => {
    const running = stage.publisher();
    await running.round();
    await stage.world.change(running, ['policies'], (tx) => stage.world.policy(tx, denyAll(1)));
    await stage.world
      .change(running, ['policies'], async (tx) => {
        await stage.world.policy(tx, denyAll(2));
        throw new Error('rolled back');
      })
      .catch(() => {});
    await running.round();
    const { version, body } = await stage.onBus('policies');
    expect(version).toBe(2);
    expect(body.policies.map(({ definition }) => definition.id)).toEqual(['deny-1']);
  });

  it('retries a change until the bus accepts it', async () => {
    const running = stage.publisher();
    await running.round();
    await stage.redis.kill();
    await stage.world.change(running, ['policies'], (tx) => stage.world.policy(tx, denyAll(1)));
    await running.round();
    expect(await stage.row('policies')).toMatchObject({ version: 2n, publishedVersion: 1n });
    await stage.redis.restart();
    await until(async () => {
      await running.round();
      return (
        (await stage.row('policies'))?.publishedVersion === (await stage.row('policies'))?.version
      );
    });
    expect((await stage.onBus('policies')).body.policies).toHaveLength(1);
  });

  it('publishes the documented content of each section, and no data of another tenant', async () => {
    const other = await SyncWorld.open({
      store: stage.store,
      bus: stage.bus,
      tenantId: `${stage.world.tenantId}-other`,
    });
    for (const one of [stage.world, other]) {
      const { tenantId } = one;
      const { db } = stage.store;
      await db.$transaction(async (bare) => {
        const tx = handSigned(bare, one.guard);
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
            approvedHash: approved.hash,
            approvalStatus: 'approved',
            riskTier: 'odd',
          },
        });
        const manifest = JSON.stringify(approved.manifest);
        await tx.toolVersion.create({
          data: {
            tenantId,
            name: 'pay.out',
            hash: approved.hash,
            surfaceHash: 'what a row says',
            manifest,
            ingestedBy: 'a',
          },
        });
      });
      await one.agent();
      const disabled = await one.agent('gone');
      await one.db.agent.update({
        where: { id: Number(disabled) },
        data: { disabledAt: new Date() },
      });
    }
    await stage.publisher().round();
    const { tenantId } = stage.world;
    expect((await stage.onBus('policies')).body.policies).toHaveLength(1);
    expect((await stage.onBus('bindings')).body.bindings).toEqual([
      { name: 'pay', protocol: 'http', host: 'pay.example', body: 'json' },
    ]);
    expect((await stage.onBus('kill_switches')).body.killSwitches).toEqual([
      { id: `${tenantId} armed`, kind: 'block_tool', tool: 'x', reason: 'r' },
      { id: `${tenantId} mode`, kind: 'force_mode', mode: 'strict', reason: 'r' },
    ]);
    expect((await stage.onBus('tools')).body.tools).toEqual([
      {
        name: 'pay.out',
        manifestHash: 'm2',
        approvedHash: approved.hash,
        approvedSurfaceHash: approved.surface,
        approvedFormHash: expect.stringMatching(/^sha256:/),
        approvalStatus: 'approved',
        riskTier: 'critical',
        inputSchema: { type: 'object' },
      },
    ]);
    const { agents, users } = (await stage.onBus('agents')).body;
    expect(agents.map(({ name, goal }) => `${name}: ${goal}`)).toEqual(['bot: pay bills']);
    expect(users).toEqual([{ id: 'ann', email: 'ann@example.com' }]);
    const { jtis, agentIds } = (await stage.onBus('revocations')).body;
    expect(jtis).toEqual([`${tenantId}-later`, `${tenantId}-unknown`]);
    expect(agentIds).toHaveLength(1);
  });

  it('publishes neither the section nor a heartbeat if a binding was written directly to the database', async () => {
    const agentId = await stage.world.agent();
    await stage.world.sidecar(`sc-${stage.tenants}`, agentId);
    const running = stage.publisher({ roundMs: 1 });
    await running.round();
    const before = await stage.onBus('bindings');
    await stage.world.change(running, ['bindings', 'policies'], async (tx) => {
      await stage.world.policy(tx, denyAll(1));
      await stage.world.binding(tx, {
        name: 'evil',
        protocol: 'passthrough',
        host: 'evil.example',
      });
      await tx.binding.updateMany({
        where: { tenantId: stage.world.tenantId },
        data: { mac: 'forged' },
      });
    });
    await running.round();
    const last = (await stage.heartbeat()).sequence;
    await running.round();
    await running.round();
    expect((await stage.onBus('bindings')).version).toBe(before.version);
    expect((await stage.onBus('policies')).version).toBe(2);
    expect((await stage.heartbeat()).sequence).toBe(last);
  });
});

describe('a heartbeat', () => {
  it('contains the version and digest of every section on the bus', async () => {
    await stage.world.sidecar(`sc-${stage.tenants}`, await stage.world.agent());
    await stage.publisher().round();
    const { sections, time } = await stage.heartbeat();
    expect(Math.abs(Date.now() - time)).toBeLessThan(10_000);
    expect(Object.keys(sections).sort()).toEqual([...tenantSections].sort());
    for (const name of tenantSections) {
      const { version, token } = await stage.onBus(name);
      expect(sections[name]).toEqual({ version, digest: sectionDigest(token) });
    }
  });

  it('is not published for a tenant without live sidecars', async () => {
    const agentId = await stage.world.agent();
    await stage.world.sidecar(`sc-${stage.tenants}`, agentId);
    await stage.world.db.sidecar.updateMany({
      where: { tenantId: stage.world.tenantId },
      data: { enrolledAt: new Date(Date.now() - 11 * 60_000) },
    });
    const running = stage.publisher({ roundMs: 1 });
    await running.round();
    expect(await stage.bus.read(stage.world.tenantId, 'heartbeat')).toBeUndefined();
    await stage.world.db.sidecar.updateMany({
      where: { tenantId: stage.world.tenantId },
      data: { lastSeenAt: new Date() },
    });
    await running.round();
    expect((await stage.heartbeat()).sequence).toBeGreaterThan(0);
  });
});

describe('the section of one sidecar', () => {
  it('is empty for a sidecar that does not exist', async () => {
    const running = stage.publisher();
    await stage.world.change(running, [sidecarSection('nobody')]);
    await running.round();
    expect((await stage.onBus(sidecarSection('nobody'))).body).toEqual({
      approvals: [],
      credentialsVersion: 0,
    });
  });
});
