import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type DeliveredApproval, tenantSections } from '../../../shared/sync/sections.ts';
import { until } from '../../support/base/until.ts';
import { sidecarId } from '../../support/sidecar/published-tenant.ts';
import { pending, published, type ReplicaStage, replicaStage } from './replica-stage.ts';

let stage: ReplicaStage;
beforeEach(async () => {
  stage = await replicaStage();
});
afterEach(() => stage.end());

describe('a replica', () => {
  it('refuses every read before any section arrived', async () => {
    const replica = await stage.open();
    expect(() => replica.assertFresh()).toThrow(
      expect.objectContaining({ code: 'sync.no_snapshot' }),
    );
    expect(() => replica.tenant).toThrow(expect.objectContaining({ code: 'sync.no_snapshot' }));
    expect(() => replica.bindings).toThrow(expect.objectContaining({ code: 'sync.no_snapshot' }));
    expect(() => replica.tool('a')).toThrow(expect.objectContaining({ code: 'sync.no_snapshot' }));
    expect(replica.nextUse()).toBeUndefined();
    expect(replica.freshness().fresh).toBe(false);
  });

  it.each(tenantSections)('refuses decisions without the section %s', async (missing) => {
    for (const name of tenantSections) if (name !== missing) await stage.tenant.publish(name);
    stage.tenant.sign(missing);
    await stage.tenant.beat();
    const replica = await stage.open();
    expect(() => replica.assertFresh()).toThrow(
      expect.objectContaining({ code: 'sync.no_snapshot' }),
    );
  });

  it('contains the published sections, and is fresh', async () => {
    stage.tenant.bodies.policies = { policies: [published] };
    stage.tenant.bodies.tools = {
      tools: [
        {
          name: 'pay.out',
          manifestHash: 'sha256:m',
          approvalStatus: 'approved',
          riskTier: 'high',
          approvedSurfaceHash: 'sha256:s',
          inputSchema: { type: 'object', required: ['amount'] },
        },
      ],
    };
    await stage.tenant.publishAll();
    const replica = await stage.open();
    expect(() => replica.assertFresh()).not.toThrow();
    expect(replica.tenant).toEqual({ id: 'acme', name: 'Acme', mode: 'enforce' });
    expect(replica.policies.size).toBe(1);
    expect(replica.policies.evaluate({ tool: { name: 'pay.out' } }).reasonCode).toBe('not.today');
    expect(replica.agent('1')?.name).toBe('bot');
    expect(replica.user('ann')).toEqual({ id: 'ann' });
    expect(replica.agent('2')).toBeUndefined();
    expect(replica.tool('pay.out')?.validateArgs?.({})).toContain('amount');
    expect(replica.tool('pay.out')?.validateArgs?.({ amount: 1 })).toBeUndefined();
    expect(replica.approvedSurface('pay.out')).toBe('sha256:s');
    expect(replica.versions()).toMatchObject({ policies: 1, tools: 1 });
  });

  it('applies each change as it arrives, and notifies the listeners of the changed section', async () => {
    await stage.tenant.publishAll();
    const replica = await stage.open();
    const told: string[] = [];
    replica.onChange('policies', () => told.push(`policies ${replica.policies.size}`));
    replica.onChange('tools', () => told.push('tools'));
    const stop = replica.onChange('policies', () => told.push('stopped'));
    stop();
    await stage.tenant.publish('policies', { policies: [published] });
    await until(() => told.length > 0);
    expect(told).toEqual(['policies 1']);
  });

  it('notifies all listeners even if one of them throws', async () => {
    await stage.tenant.publishAll();
    const replica = await stage.open();
    let told = 0;
    replica.onChange('tenant', () => {
      throw new Error('the listener is at fault');
    });
    replica.onChange('tenant', () => {
      told += 1;
    });
    await stage.tenant.publish('tenant');
    await until(() => told === 1);
  });

  it('that is too old refuses decisions in modes enforce and strict, but not in modes monitor and warn', async () => {
    for (const mode of ['monitor', 'warn', 'enforce', 'strict'] as const) {
      await stage.tenant.publish('tenant', { id: 'acme', name: 'Acme', mode });
      await stage.tenant.publishAll();
      const replica = await stage.open();
      stage.clock.advance(30_001);
      const refused = expect.objectContaining({ code: 'policy.update_required' });
      if (mode === 'enforce' || mode === 'strict') {
        expect(() => replica.assertFresh()).toThrow(refused);
      } else {
        expect(() => replica.assertFresh()).not.toThrow();
      }
      await stage.close(replica);
    }
  });

  it('that is too old refuses decisions if a kill switch forces a stricter mode', async () => {
    stage.tenant.bodies.tenant = { id: 'acme', name: 'Acme', mode: 'monitor' };
    stage.tenant.bodies.kill_switches = {
      killSwitches: [{ id: 'k', kind: 'force_mode', mode: 'enforce', reason: 'incident' }],
    };
    await stage.tenant.publishAll();
    const replica = await stage.open();
    stage.clock.advance(30_001);
    expect(() => replica.assertFresh()).toThrow(
      expect.objectContaining({ code: 'policy.update_required' }),
    );
  });

  it('ignores a forced mode that has expired', async () => {
    stage.tenant.bodies.tenant = { id: 'acme', name: 'Acme', mode: 'monitor' };
    const expiresAtMs = stage.clock.now() + 30_001;
    stage.tenant.bodies.kill_switches = {
      killSwitches: [{ id: 'k', kind: 'force_mode', mode: 'enforce', reason: 'i', expiresAtMs }],
    };
    await stage.tenant.publishAll();
    const replica = await stage.open();
    stage.clock.advance(30_001);
    expect(() => replica.assertFresh()).not.toThrow();
  });

  it('does not apply a policy that does not match its published hash', async () => {
    await stage.tenant.publishAll();
    const replica = await stage.open();
    await stage.tenant.publish('policies', {
      policies: [{ ...published, hash: `sha256:${'0'.repeat(64)}` }],
    });
    await stage.tenant.beat();
    await until(() => replica.refused > 0);
    expect(replica.policies.size).toBe(0);
    stage.clock.advance(30_001);
    expect(() => replica.assertFresh()).toThrow(
      expect.objectContaining({ code: 'policy.update_required' }),
    );
  });

  it('refuses every call if the schema of a tool cannot be compiled', async () => {
    stage.tenant.bodies.tools = {
      tools: [
        {
          name: 'pay.out',
          manifestHash: 'sha256:m',
          approvalStatus: 'approved',
          riskTier: 'low',
          inputSchema: { type: 'no such type' },
        },
      ],
    };
    await stage.tenant.publishAll();
    const replica = await stage.open();
    expect(replica.tool('pay.out')?.validateArgs?.({})).toBeTypeOf('string');
  });

  it('refuses decisions after its sidecar was revoked', async () => {
    await stage.tenant.publishAll();
    const replica = await stage.open();
    await stage.tenant.publish('revocations', { jtis: [], agentIds: [], sidecarIds: [sidecarId] });
    await until(() => replica.isRevoked('any'));
    expect(() => replica.assertFresh()).toThrow(
      expect.objectContaining({ code: 'sidecar.revoked' }),
    );
  });
});

describe('approvals of this sidecar', () => {
  const granted = {
    id: 8,
    actionDigest: 'sha256:a',
    status: 'approved',
    expiresAtMs: Number.MAX_SAFE_INTEGER,
    eventHash: 'sha256:e',
    passport: 'x.y.z',
  } as const;

  async function openWith(...approvals: readonly DeliveredApproval[]) {
    await stage.tenant.publishAll();
    await stage.tenant.publishOwn({ approvals });
    return stage.open();
  }

  it('are found by id, by event hash and by action digest', async () => {
    const replica = await openWith(granted);
    expect(replica.approvalById(8)).toEqual(granted);
    expect(replica.approvalByHash('sha256:e')).toEqual(granted);
    expect(replica.approvalFor('sha256:a')).toEqual(granted);
    expect(replica.approvalFor('sha256:b')).toBeUndefined();
    expect(replica.approvalByHash('sha256:x')).toBeUndefined();
  });

  it('are found by the digest of the requested action and by that of the modified action', async () => {
    const modified = { ...granted, status: 'modified', effectiveDigest: 'sha256:m' } as const;
    const replica = await openWith(modified);
    expect(replica.approvalFor('sha256:a')?.id).toBe(8);
    expect(replica.approvalFor('sha256:m')?.id).toBe(8);
  });

  it('are searched for a usable grant first, and then for pending and denied approvals', async () => {
    const replica = await openWith(
      granted,
      { ...pending, id: 9 },
      { ...pending, id: 10, status: 'denied' },
    );
    expect(replica.approvalFor('sha256:a')?.id).toBe(8);
  });

  it.each([
    ['used', { used: true }],
    ['expired', { expiresAtMs: 1 }],
    ['delivered without a passport', { passport: undefined }],
    ['expired without a decision', { status: 'expired' }],
  ] as const)('are not found by action if they are %s', async (_what, change) => {
    const replica = await openWith({ ...granted, ...change });
    expect(replica.approvalFor('sha256:a')).toBeUndefined();
  });

  it('include a denial unless a human approved the action later', async () => {
    const denied = { ...pending, status: 'denied' } as const;
    const after = { ...granted, id: 9, used: true };
    expect((await openWith(denied, after)).approvalFor('sha256:a')).toBeUndefined();
    expect((await openWith(after, { ...denied, id: 10 })).approvalFor('sha256:a')?.id).toBe(10);
  });

  it('include a denial', async () => {
    const replica = await openWith({ ...pending, status: 'denied' });
    expect(replica.approvalFor('sha256:a')?.status).toBe('denied');
  });
});
