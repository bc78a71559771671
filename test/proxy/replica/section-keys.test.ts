import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Replica } from '../../../proxy/replica/replica.ts';
import { SectionKeys } from '../../../proxy/replica/section-keys.ts';
import { silentLog } from '../../../shared/base/log.ts';
import { generateSigningKey, type PublicJwk } from '../../../shared/crypto/signing-key.ts';
import { signSuccession } from '../../../shared/sync/key-succession.ts';
import { sidecarSection } from '../../../shared/sync/sections.ts';
import { until } from '../../support/base/until.ts';
import { PublishedTenant, sidecarId } from '../../support/sidecar/published-tenant.ts';
import { type ReplicaStage, replicaStage } from './replica-stage.ts';

let stage: ReplicaStage;
let thief: PublishedTenant;
beforeEach(async () => {
  stage = await replicaStage();
  await stage.tenant.publishAll();
  // An attacker who has the former section key and writes to the bus.
  thief = new PublishedTenant(stage.bus, stage.clock);
  Object.assign(thief, { key: stage.tenant.key });
});
afterEach(() => stage.end());

const armed = {
  killSwitches: [{ id: 'k', kind: 'block_tool', tool: 'pay.out', reason: 'incident' }],
} as const;

/** Makes the replica follow the section keys that the control plane reports. */
async function follow(
  replica: Replica,
  pinned: readonly PublicJwk[] = [stage.tenant.key.publicJwk],
) {
  const state = { statements: [] as string[], asked: 0, pinned: [] as string[], pinFails: false };
  const keys = new SectionKeys({
    tenantId: 'acme',
    pinned,
    fetch: async () => {
      state.asked += 1;
      return state.statements;
    },
    pin: ({ kid }) => {
      if (state.pinFails) throw new Error('disk full');
      state.pinned.push(kid);
    },
    onChange: (believed) => replica.trust(believed),
    clock: stage.clock,
    log: silentLog,
  });
  replica.onUnknownSigner(() => keys.follow());
  /**
   * Rotates the key as the control plane does: the former key names the new key, which signs all sections
   * again.
   */
  const rotate = async () => {
    const next = generateSigningKey();
    state.statements.push(signSuccession('acme', stage.tenant.key, next.publicJwk));
    Object.assign(stage.tenant, { key: next });
    stage.clock.advance(2_000);
    await stage.tenant.publishAll();
    return next;
  };
  return { state, keys, rotate };
}

describe('the keys of sections', () => {
  it('are replaced after a rotation, and stored for the next start', async () => {
    const replica = await stage.open();
    const { state, rotate } = await follow(replica);
    const next = await rotate();
    await until(() => state.pinned.includes(next.kid) && replica.freshness().fresh);
    expect(() => replica.assertFresh()).not.toThrow();
    await stage.tenant.publish('kill_switches', armed);
    await until(() => replica.killSwitches.length === 1);
  });

  it('are replaced after several rotations while the sidecar was down', async () => {
    const replica = await stage.open();
    const { state, rotate } = await follow(replica);
    replica.onUnknownSigner(() => {});
    const first = stage.tenant.key.publicJwk;
    await rotate();
    const last = await rotate();
    const woken = await follow(replica, [first]);
    woken.state.statements = state.statements;
    woken.keys.noteActive(last.kid);
    await until(() => replica.freshness().fresh);
    expect(woken.state.pinned).toEqual([last.kid]);
  });

  it('are distrusted after a rotation, even for versions that they signed before the rotation', async () => {
    const replica = await stage.open();
    const { state, rotate } = await follow(replica);
    thief.versions.set('kill_switches', Number.MAX_SAFE_INTEGER - 3);
    await thief.publish('kill_switches', { killSwitches: [] });
    await until(() => replica.versions().kill_switches === Number.MAX_SAFE_INTEGER - 2);
    stage.tenant.bodies.kill_switches = armed;
    await rotate();
    await until(() => state.pinned.length === 1 && replica.killSwitches.length === 1);
    await until(() => replica.freshness().fresh);
    expect(replica.killSwitches).toEqual(armed.killSwitches);

    const refusedBefore = replica.refused;
    await thief.publish('kill_switches', { killSwitches: [] });
    await until(() => replica.refused > refusedBefore);
    expect(replica.killSwitches).toEqual(armed.killSwitches);
    expect(state.pinned).toHaveLength(1);
  });

  it('cannot be replaced by a thief of a key, because the control plane does not confirm the thief’s successor key', async () => {
    const replica = await stage.open();
    const { state } = await follow(replica);
    const own = generateSigningKey();
    const forger = new PublishedTenant(stage.bus, stage.clock);
    Object.assign(forger, { key: own });
    await stage.bus.publish('acme', 'keys', signSuccession('acme', thief.key, own.publicJwk));
    await forger.publish('kill_switches');
    await until(() => state.asked > 0);
    expect(state.pinned).toEqual([]);
    expect(replica.versions().kill_switches).toBe(1);
  });

  it('are not trusted if they cannot be stored', async () => {
    const replica = await stage.open();
    const { state, rotate } = await follow(replica);
    state.pinFails = true;
    await rotate();
    await until(() => state.asked > 0);
    expect(replica.refused).toBeGreaterThan(0);
    stage.clock.advance(30_001);
    expect(() => replica.assertFresh()).toThrow(
      expect.objectContaining({ code: 'policy.update_required' }),
    );
  });

  it('are requested at a limited rate, however many forgeries arrive', async () => {
    const replica = await stage.open();
    const { state } = await follow(replica);
    const forger = new PublishedTenant(stage.bus, stage.clock);
    for (let round = 0; round < 50; round++) await forger.publish('kill_switches');
    await until(() => state.asked > 0);
    await stage.tenant.publish('kill_switches', armed);
    await until(() => replica.killSwitches.length === 1);
    expect(state.asked).toBe(1);
  });

  it('do not make an earlier process’s lease usable when they change', async () => {
    const old = stage.tenant.lease();
    const { publicJwk } = stage.tenant.key;
    Object.assign(stage.tenant, { key: generateSigningKey() });
    const statement = signSuccession('acme', thief.key, stage.tenant.key.publicJwk);
    await stage.tenant.publishAll();
    await stage.tenant.publishOwn({ lease: old });
    const replica = await stage.open({ sectionKeys: thief.sectionKeys });
    const { state, keys } = await follow(replica, [publicJwk]);
    state.statements = [statement];
    keys.follow();
    await until(() => replica.versions()[sidecarSection(sidecarId)] !== undefined);
    expect(replica.nextUse()).toBeUndefined();
    await stage.tenant.publishOwn({ lease: old });
    await stage.tenant.publishOwn({ lease: stage.tenant.lease() });
    await until(() => replica.nextUse() !== undefined);
  });

  it('do not affect the lease in use when they change', async () => {
    const replica = await stage.open();
    const { state, rotate } = await follow(replica);
    const lease = stage.tenant.lease();
    await stage.tenant.publishOwn({ lease });
    await until(() => replica.nextUse() !== undefined);
    const before = replica.nextUse()?.claims.jti;
    await rotate();
    await stage.tenant.publishOwn({ lease });
    await until(() => state.pinned.length === 1 && replica.freshness().fresh);
    const [id, n] = (before ?? '').split('.');
    expect(replica.nextUse()?.claims.jti).toBe(`${id}.${Number(n) + 1}`);
  });
});
