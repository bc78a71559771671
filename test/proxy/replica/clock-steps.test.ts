import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Replica } from '../../../proxy/replica/replica.ts';
import { blockingSwitch } from '../../../shared/decision/kill-switch.ts';
import { until } from '../../support/base/until.ts';
import { sidecarId } from '../../support/sidecar/published-tenant.ts';
import { pending, type ReplicaStage, replicaStage } from './replica-stage.ts';

let stage: ReplicaStage;
let replica: Replica;
beforeEach(async () => {
  stage = await replicaStage();
  await stage.tenant.publishAll();
  replica = await stage.open();
});
afterEach(() => stage.end());

const hourMs = 3_600_000;
const steps = [
  ['forward', 24 * hourMs],
  ['back', -24 * hourMs],
] as const;

const step = (byMs: number) => stage.clock.setWall(stage.clock.now() + byMs);
const target = { agentId: '1', tool: 'pay.out' };
const isBlocked = () =>
  blockingSwitch(replica.killSwitches, target, replica.clock.now()) !== undefined;

describe('a step of the wall clock', () => {
  it.each(steps)('%s ends a kill switch neither early nor late', async (_way, byMs) => {
    const expiresAtMs = stage.clock.now() + 60_000;
    await stage.tenant.publish('kill_switches', {
      killSwitches: [{ id: 'k', kind: 'block_tool', tool: 'pay.*', reason: 'stop', expiresAtMs }],
    });
    await until(() => replica.killSwitches.length === 1);
    step(byMs);
    expect(isBlocked()).toBe(true);
    stage.clock.advance(59_999);
    expect(isBlocked()).toBe(true);
    stage.clock.advance(1);
    expect(isBlocked()).toBe(false);
  });

  it.each(steps)('%s does not end a forced mode early', async (_way, byMs) => {
    stage.tenant.bodies.tenant = { id: 'acme', name: 'Acme', mode: 'monitor' };
    await stage.tenant.publish('tenant');
    const expiresAtMs = stage.clock.now() + 60_000;
    await stage.tenant.publish('kill_switches', {
      killSwitches: [{ id: 'k', kind: 'force_mode', mode: 'enforce', reason: 'i', expiresAtMs }],
    });
    await until(() => replica.killSwitches.length === 1 && replica.tenant.mode === 'monitor');
    stage.clock.advance(30_001);
    step(byMs);
    const refused = expect.objectContaining({ code: 'policy.update_required' });
    expect(() => replica.assertFresh()).toThrow(refused);
    stage.clock.advance(30_000);
    expect(() => replica.assertFresh()).not.toThrow();
  });

  it.each(steps)('%s neither ends a lease early nor prolongs it', async (_way, byMs) => {
    await stage.tenant.publishOwn({ lease: stage.tenant.lease({ ttl: 60 }) });
    await until(() => replica.nextUse() !== undefined);
    step(byMs);
    stage.clock.advance(58_000);
    expect(replica.nextUse()).toBeDefined();
    stage.clock.advance(2_000);
    expect(replica.nextUse()).toBeUndefined();
  });

  it.each(steps)('%s neither ends a grant early nor prolongs it', async (_way, byMs) => {
    const expiresAtMs = stage.clock.now() + 60_000;
    const granted = { ...pending, status: 'approved', expiresAtMs, passport: 'p' } as const;
    await stage.tenant.publishOwn({ approvals: [granted] });
    await until(() => replica.approvalFor('sha256:a') !== undefined);
    step(byMs);
    expect(replica.approvalFor('sha256:a')).toBeDefined();
    stage.clock.advance(60_000);
    expect(replica.approvalFor('sha256:a')).toBeUndefined();
  });

  it.each(steps)('%s does not change the age of the replica', async (_way, byMs) => {
    step(byMs);
    stage.clock.advance(30_000);
    expect(() => replica.assertFresh()).not.toThrow();
    stage.clock.advance(1);
    expect(() => replica.assertFresh()).toThrow(
      expect.objectContaining({ code: 'policy.update_required' }),
    );
    expect(replica.versions()[`sidecar:${sidecarId}`]).toBeUndefined();
  });
});
