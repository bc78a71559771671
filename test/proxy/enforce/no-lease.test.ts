import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { judge } from '../../../proxy/enforce/judge.ts';
import { UsedPassports } from '../../../proxy/enforce/presented-passport.ts';
import { LiveDrift } from '../../../proxy/mcp/live-drift.ts';
import { UsageCounter } from '../../../proxy/replica/usage-counter.ts';
import { silentLog } from '../../../shared/base/log.ts';
import type { Mode } from '../../../shared/vocabulary/action.ts';
import { mayProceed } from '../../../shared/vocabulary/verdict.ts';
import { sidecarId } from '../../support/sidecar/published-tenant.ts';
import { type ReplicaStage, replicaStage } from '../replica/replica-stage.ts';

let stage: ReplicaStage;
beforeEach(async () => {
  stage = await replicaStage();
});
afterEach(() => stage.end());

/** Judges a call without a passport in a sidecar that has no usable lease. */
async function judgeIn(mode: Mode) {
  stage.tenant.bodies.tenant = { id: 'acme', name: 'Acme', mode };
  await stage.tenant.publishAll();
  const replica = await stage.open();
  const identity = {
    sidecarId,
    tenantId: 'acme',
    agentId: '1',
    userId: 'ann',
    environment: 'prod',
  } as const;
  const nobody = () => Promise.reject(new Error('nobody is asked'));
  const { verdict } = await judge(
    { tenantId: 'acme', agentId: '1', userId: 'ann', tool: 'pay.out', resource: 'a', args: {} },
    undefined,
    {
      identity,
      replica,
      bus: stage.bus,
      liveDrift: new LiveDrift({ replica, isUnreachable: () => false, report: () => {} }),
      controlPlane: {
        openApproval: nobody,
        spendApproval: nobody,
        claimPassport: nobody,
        credentials: nobody,
        upload: nobody,
        report: nobody,
        keySuccession: nobody,
        usage: nobody,
      },
      clock: stage.clock,
      log: silentLog,
      consumedApprovals: new Set(),
      usedPassports: new UsedPassports(),
      usage: new UsageCounter({ clock: stage.clock, maxStalenessMs: 1 }),
    },
  );
  return verdict;
}

describe('a call without a passport through a sidecar without a lease', () => {
  it.each(['enforce', 'strict'] as const)('is denied in the mode %s', async (mode) => {
    const verdict = await judgeIn(mode);
    expect(verdict).toMatchObject({ decision: 'deny', reasonCode: 'passport.lease_exhausted' });
    expect(mayProceed(verdict)).toBe(false);
  });

  it.each([
    ['monitor', 'deny'],
    ['warn', 'warn'],
  ] as const)('is reported in the mode %s, but can proceed', async (mode, decision) => {
    const verdict = await judgeIn(mode);
    const reasonCode = 'passport.lease_exhausted';
    expect(verdict).toMatchObject({ decision, reasonCode, enforced: false });
    expect(mayProceed(verdict)).toBe(true);
  });

  it('is denied even in monitor mode while a kill switch blocks the call', async () => {
    stage.tenant.bodies.kill_switches = {
      killSwitches: [{ id: 'k', kind: 'block_tool', tool: 'pay.out', reason: 'incident' }],
    };
    const verdict = await judgeIn('monitor');
    expect(verdict).toMatchObject({ reasonCode: 'runtime.kill_switch', enforced: true });
    expect(mayProceed(verdict)).toBe(false);
  });
});
