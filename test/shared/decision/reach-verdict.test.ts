import { describe, expect, it } from 'vitest';
import { digestOf } from '../../../shared/approval/action-digest.ts';
import { decide } from '../../../shared/decision/decide.ts';
import {
  type DecisionInput,
  type DecisionPoint,
  reachByStandingGrant,
  reachVerdict,
} from '../../../shared/decision/reach-verdict.ts';
import type { PolicySet } from '../../../shared/policy/engine/policy-set.ts';
import { ToolUsage } from '../../../shared/usage/tool-usage.ts';
import { UsageBook } from '../../../shared/usage/usage-book.ts';
import type { ApprovalProof } from '../../../shared/vocabulary/approval-proof.ts';
import { baseAction, baseState, nowMs, signedPassport } from '../fixtures.ts';
import { decider, policy, rule, tool, usage } from './usage-stage.ts';

const inBudget = usage('calls_1h', '<', 100);
const grantLimits = { max_uses: 5, max_ttl_seconds: 3_600, scope: 'action' } as const;
const asksHuman = {
  ...rule('require_approval', inBudget),
  approval: { min_role: 'approver', quorum: 1, grant: grantLimits },
};
const allowing = decider(policy([rule('allow', inBudget)])).policies;
const asking = decider(policy([asksHuman])).policies;

const manifestHash = baseState.tool?.manifestHash;

function proof(approvalId: number, more: Partial<ApprovalProof> = {}): ApprovalProof {
  return {
    approvalId,
    eventHash: 'h',
    actionDigest: digestOf(baseAction, manifestHash),
    granted: true,
    used: false,
    expiresAtMs: nowMs + 1,
    deciders: { role: 'approver', count: 1 },
    ...more,
  };
}

function standing(approvalId: number, more: Partial<ApprovalProof> = {}): ApprovalProof {
  const { agentId, userId } = baseAction;
  const holder = { agentId, userId, tool, manifestHash: manifestHash ?? null };
  const terms = { uses: 5, ttlSeconds: 3_600, scope: 'action', minRole: 'approver', quorum: 1 };
  return proof(approvalId, { standing: { ...holder, ...terms, scope: 'action' }, ...more });
}

const boundPassport = () => signedPassport({ approval_hash: 'h' }, { approval: proof(1) });

interface Outcomes {
  readonly claim?: 'claimed' | 'replayed' | 'unavailable';
  readonly spend?: (approvalId: number) => Promise<boolean>;
}

/**
 * Creates a decision point that records its steps. `calls` returns how many calls it has counted.
 */
function pointWith(policies: PolicySet, { claim = 'claimed', spend }: Outcomes = {}) {
  const book = new UsageBook();
  const steps: string[] = [];
  const point: DecisionPoint<DecisionInput> = {
    decideWith({ action, passport, grant }) {
      steps.push('decide');
      const known = new ToolUsage([book.of(tool)]);
      return decide(action, { ...baseState, policies, usage: known, passport, grant }, nowMs);
    },
    async claim() {
      steps.push('claim');
      return claim;
    },
    async spend({ approvalId }) {
      steps.push(`spend ${approvalId}`);
      return spend?.(approvalId) ?? true;
    },
    count({ sums }) {
      steps.push('count');
      return book.count(tool, sums, { nowMs, monotonicMs: 0 });
    },
  };
  return { point, steps, calls: () => new ToolUsage([book.of(tool)]).callsIn1h(nowMs) };
}

describe('reachVerdict', () => {
  it('returns the verdict unchanged if no effect needs the network', () => {
    const { point, steps } = pointWith(allowing);
    const reached = reachVerdict({ action: baseAction, passport: undefined }, point);
    expect(reached).toMatchObject({ action: baseAction, verdict: { decision: 'allow' } });
    expect(steps).toEqual(['decide', 'count']);
  });

  it('claims the passport, counts the call, then consumes the grant', async () => {
    const { point, steps, calls } = pointWith(asking);
    const input = { action: baseAction, passport: boundPassport() };
    const { verdict, passport } = await reachVerdict(input, point);
    expect(verdict).toMatchObject({ decision: 'allow', reasonCode: 'approval.satisfied' });
    expect(passport).toMatchObject({ use: 'claimed' });
    expect(steps).toEqual(['decide', 'claim', 'decide', 'count', 'spend 1']);
    expect(calls()).toBe(1);
  });

  it.each([
    ['replayed', 'passport.replay_detected'],
    ['unavailable', 'passport.claim_unavailable'],
  ] as const)('denies a passport whose claim is %s', async (claim, reasonCode) => {
    const { point, steps } = pointWith(allowing, { claim });
    const input = { action: baseAction, passport: signedPassport() };
    const { verdict } = await reachVerdict(input, point);
    expect(verdict).toMatchObject({ decision: 'deny', reasonCode });
    expect(steps).toEqual(['decide', 'claim', 'decide']);
  });

  it('releases the counted call and decides again if another caller already consumed the grant', async () => {
    const { point, steps, calls } = pointWith(asking, { spend: async () => false });
    const input = { action: baseAction, passport: boundPassport() };
    const { verdict } = await reachVerdict(input, point);
    expect(verdict).toMatchObject({ decision: 'deny', reasonCode: 'approval.used' });
    expect(steps.slice(-2)).toEqual(['spend 1', 'decide']);
    expect(calls()).toBe(0);
  });

  it('releases the counted call if consuming the grant fails with an error', async () => {
    const spend = () => Promise.reject(new Error('no database'));
    const { point, calls } = pointWith(asking, { spend });
    const input = { action: baseAction, passport: boundPassport() };
    await expect(reachVerdict(input, point)).rejects.toThrow('no database');
    expect(calls()).toBe(0);
  });
});

describe('reachByStandingGrant', () => {
  async function tryGrants(grants: readonly ApprovalProof[], outcomes?: Outcomes) {
    const { point, steps, calls } = pointWith(asking, outcomes);
    const input = { action: baseAction, passport: undefined };
    const first = await reachVerdict(input, point);
    expect(first.verdict.decision).toBe('require_approval');
    const granted = await reachByStandingGrant(first, {
      grants,
      reachWith: (grant) => reachVerdict({ ...input, grant }, point),
    });
    return { granted, calls: calls(), spent: steps.filter((step) => step.startsWith('spend')) };
  }

  it('consumes the first grant that covers the action, and no other', async () => {
    const grants = [standing(1, { expiresAtMs: nowMs - 1 }), standing(2), standing(3)];
    const { granted, calls, spent } = await tryGrants(grants);
    expect(granted?.verdict).toMatchObject({ decision: 'allow', reasonCode: 'approval.satisfied' });
    expect(spent).toEqual(['spend 2']);
    expect(calls).toBe(1);
  });

  it('tries the next grant if another caller consumed the last use of a grant', async () => {
    const spend = async (approvalId: number) => approvalId === 2;
    const { granted, calls, spent } = await tryGrants([standing(1), standing(2)], { spend });
    expect(granted?.verdict.decision).toBe('allow');
    expect(spent).toEqual(['spend 1', 'spend 2']);
    expect(calls).toBe(1);
  });

  it('returns nothing and counts nothing if no grant has a use left', async () => {
    const spend = async () => false;
    const { granted, calls } = await tryGrants([standing(1), standing(2)], { spend });
    expect(granted).toBeUndefined();
    expect(calls).toBe(0);
  });
});
