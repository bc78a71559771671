import { describe, expect, it } from 'vitest';
import {
  type ApprovalFacts,
  type DecisionAttempt,
  judgeDecision,
} from '../../../shared/approval/decide.ts';
import {
  type ApprovalAction,
  type ApprovalState,
  approvalActions,
  approvalStates,
  isOpen,
  stateAt,
  transition,
} from '../../../shared/vocabulary/approval-states.ts';
import { nowMs } from '../fixtures.ts';
import { loadVectors } from '../load-vectors.ts';

interface TransitionVector {
  readonly name: string;
  readonly from: ApprovalState;
  readonly action: ApprovalAction;
  readonly to?: ApprovalState;
  readonly refused?: string;
  readonly after?: 'reauthenticated' | 'manifestApproved';
}

const approval: ApprovalFacts = {
  kind: 'action',
  status: 'pending',
  agentId: '7',
  userId: 'alice',
  userEmail: 'alice@acme.com',
  minRole: 'approver',
  quorum: 1,
  expiresAtMs: nowMs + 3_600_000,
  requestedBy: ['service-account:sa_1'],
  riskTier: 'high',
};

interface Change extends Partial<Omit<DecisionAttempt, 'approval'>> {
  readonly approval?: Partial<ApprovalFacts>;
}

function judge({ approval: facts, ...more }: Change = {}) {
  return judgeDecision({
    approval: { ...approval, ...facts },
    decider: { principal: 'bob', role: 'approver' },
    action: 'approve',
    effectiveDigest: 'sha256:d',
    nowMs,
    reauthenticated: false,
    manifestApproved: false,
    votes: [],
    ...more,
  });
}

const vectors = loadVectors<TransitionVector>('approval/transitions.yaml');

describe('the table of approval states', () => {
  it('covers every state and every act', () => {
    expect(vectors).toHaveLength(approvalStates.length * approvalActions.length);
    expect(new Set(vectors.map(({ from, action }) => `${from} ${action}`)).size).toBe(72);
  });

  it.each(vectors)(
    'leads to the listed state or refusal: $name',
    ({ from, action, to, refused, after }) => {
      expect(transition(from, action)).toBe(to);
      const attempt: Change = { approval: { status: from }, action };
      if (refused !== undefined) {
        expect(judge(attempt)).toMatchObject({ ok: false, code: refused });
        return;
      }
      const moved = { ok: true, status: to, isFinal: to !== undefined && !isOpen(to) };
      if (after === undefined) {
        expect(judge(attempt)).toMatchObject(moved);
        return;
      }
      expect(judge(attempt)).toMatchObject({ ok: false, code: 'approval.precondition_unmet' });
      expect(judge({ ...attempt, [after]: true })).toMatchObject(moved);
    },
  );
});

describe('the right to decide on an approval', () => {
  it.each([
    ['the delegating user', { principal: 'alice', role: 'owner' }],
    ['the user with a different spelling of the name', { principal: ' Alice ', role: 'owner' }],
    ['the user with invisible characters', { principal: 'al\u200bice\u2060', role: 'owner' }],
    ['the user by e-mail address', { principal: 'ALICE@acme.com', role: 'owner' }],
    ['the agent by its id', { principal: '7', role: 'owner' }],
    ['the agent by its name as a principal', { principal: 'agent:7', role: 'owner' }],
    ['the requester', { principal: 'service-account:sa_1', role: 'owner' }],
    ['a key created by the user', { principal: 'carol', role: 'owner', mintedBy: ['Alice'] }],
    ['a key bound to the agent', { principal: 'svc', role: 'owner', agentId: '7' }],
  ])('is denied to %s, whatever the act', (_, decider) => {
    for (const action of approvalActions) {
      expect(judge({ decider, action })).toMatchObject({
        ok: false,
        code: 'approval.self_decision',
      });
    }
  });

  it.each([
    ['approver', 'approver', true],
    ['admin', 'approver', true],
    ['owner', 'approver', true],
    ['approver', 'admin', false],
    ['admin', 'admin', true],
    ['admin', 'owner', false],
    ['owner', 'owner', true],
    ['developer', 'approver', false],
    ['agent', 'agent', false],
    ['', 'approver', false],
    ['approver', 'developer', true],
    ['admin', 'cfo', false],
    ['owner', 'cfo', true],
    ['approver', '', false],
  ])(
    'depends on the role: if the role is %s and the required role is %s, the result is %s',
    (role, minRole, may) => {
      const outcome = judge({ decider: { principal: 'bob', role }, approval: { minRole } });
      expect(outcome.ok).toBe(may);
      if (!outcome.ok) expect(outcome.code).toBe('approval.role_insufficient');
    },
  );

  it('is checked before the state of the approval is revealed', () => {
    const decider = { principal: 'alice', role: 'owner' };
    expect(judge({ decider, approval: { status: 'denied' } })).toMatchObject({
      code: 'approval.self_decision',
    });
  });
});

describe('escalation', () => {
  it.each([
    ['approver', 'admin'],
    ['admin', 'owner'],
    ['owner', 'owner'],
  ])(
    'raises the required role from %s to %s and stores the person who escalated',
    (minRole, raised) => {
      const decider = { principal: 'bob', role: 'owner' };
      expect(judge({ action: 'escalate', decider, approval: { minRole } })).toMatchObject({
        status: 'escalated',
        minRole: raised,
        escalatedBy: 'bob',
      });
    },
  );

  it.each(['approve', 'deny', 'modify'] as const)(
    'refuses the act %s by the person who escalated',
    (action) => {
      const escalated = { status: 'escalated', escalatedBy: 'Bob', minRole: 'admin' } as const;
      const attempt = { action, approval: escalated };
      const bob = { principal: 'bob', role: 'admin' };
      expect(judge({ ...attempt, decider: bob })).toMatchObject({ code: 'approval.already_voted' });
      const carol = { principal: 'carol', role: 'admin' };
      expect(judge({ ...attempt, decider: carol })).toMatchObject({ ok: true, isFinal: true });
      const made = { ...carol, mintedBy: ['bob'] };
      expect(judge({ ...attempt, decider: made })).toMatchObject({
        code: 'approval.already_voted',
      });
    },
  );

  it('still permits the person who escalated to request more context', () => {
    const attempt = { approval: { status: 'escalated', escalatedBy: 'bob' } } as const;
    expect(judge({ ...attempt, action: 'request_context' }).ok).toBe(true);
  });
});

describe('the expiry of an approval', () => {
  it('takes effect at the stated time, even if no cleanup run has stored the expiry yet', () => {
    expect(stateAt({ status: 'pending', expiresAtMs: nowMs }, nowMs)).toBe('expired');
    expect(stateAt({ status: 'pending', expiresAtMs: nowMs + 1 }, nowMs)).toBe('pending');
    expect(stateAt({ status: 'approved', expiresAtMs: nowMs - 1 }, nowMs)).toBe('approved');
  });

  it.each(approvalActions)('makes every act except expire fail: %s', (action) => {
    const outcome = judge({ action, approval: { expiresAtMs: nowMs } });
    if (action === 'expire') expect(outcome).toMatchObject({ ok: true, status: 'expired' });
    else expect(outcome).toMatchObject({ ok: false, code: 'approval.transition_invalid' });
  });
});

describe('an approval with a quorum of two', () => {
  const two = { approval: { quorum: 2 } } as const;
  const vote = (principal: string, action: ApprovalAction, effectiveDigest?: string) => ({
    principal,
    role: 'approver',
    action,
    effectiveDigest,
  });

  it('is pending after the first vote, and is decided by the second vote', () => {
    expect(judge(two)).toMatchObject({ ok: true, status: 'pending', votesMissing: 1 });
    expect(judge({ ...two, votes: [vote('carol', 'approve')] })).toMatchObject({
      status: 'approved',
      votesMissing: 0,
    });
  });

  it.each(['bob', 'BOB '])('does not accept a second vote of one person (%s)', (principal) => {
    expect(judge({ ...two, votes: [vote(principal, 'approve')] })).toMatchObject({
      ok: false,
      code: 'approval.already_voted',
    });
  });

  it.each([
    ['a second key of the voter', { principal: 'bob2', mintedBy: ['bob'] }, {}],
    ['the creator of the voting key', { principal: 'bob', mintedBy: [] }, { mintedBy: ['bob'] }],
    [
      'a second key of the same creator',
      { principal: 'ben', mintedBy: ['alex'] },
      { mintedBy: ['ALEX'] },
    ],
  ])('does not count %s as a second person', (_what, decider, voter) => {
    const principal = decider.principal === 'bob2' ? 'bob' : 'carol';
    const votes = [{ ...vote(principal, 'approve'), ...voter }];
    expect(judge({ ...two, decider: { ...decider, role: 'approver' }, votes })).toMatchObject({
      code: 'approval.already_voted',
    });
  });

  it('does not count the vote of a person whose role is no longer sufficient, and accepts a new vote by this person', () => {
    const raised = { approval: { quorum: 2, minRole: 'admin' } } as const;
    const admin = { principal: 'bob', role: 'admin' };
    for (const voter of ['carol', 'bob']) {
      expect(judge({ ...raised, decider: admin, votes: [vote(voter, 'approve')] })).toMatchObject({
        ok: true,
        votesMissing: 1,
      });
    }
  });

  it('stores with the decision the number of approvers and the lowest role among them', () => {
    const votes = [vote('carol', 'approve')];
    const decider = { principal: 'bob', role: 'owner' };
    expect(judge({ ...two, decider, votes })).toMatchObject({
      deciders: { role: 'approver', count: 2 },
    });
    expect(judge({ decider })).toMatchObject({ deciders: { role: 'owner', count: 1 } });
    expect(judge({ decider, action: 'deny' })).toMatchObject({ deciders: undefined });
  });

  it('counts a person only once even if the name is spelled in two ways', () => {
    const votes = [vote('carol', 'approve'), vote('Carol', 'approve')];
    expect(judge({ approval: { quorum: 3 }, votes })).toMatchObject({ votesMissing: 1 });
  });

  it('is denied by a single denial, even if the same person approved before', () => {
    const votes = [vote('bob', 'approve')];
    expect(judge({ ...two, action: 'deny', votes })).toMatchObject({ status: 'denied' });
  });

  it('requires that both votes are for the same arguments', () => {
    const modify = { ...two, action: 'modify' } as const;
    expect(judge({ ...modify, votes: [vote('carol', 'approve')] })).toMatchObject({
      votesMissing: 1,
    });
    expect(judge({ ...modify, votes: [vote('carol', 'modify', 'sha256:x')] })).toMatchObject({
      votesMissing: 1,
    });
    expect(judge({ ...modify, votes: [vote('carol', 'modify', 'sha256:d')] })).toMatchObject({
      status: 'modified',
    });
  });

  it('does not count votes that were cast before a request for more context', () => {
    const votes = [vote('carol', 'approve'), vote('dave', 'request_context')];
    const approvalFacts = { quorum: 2, status: 'context_requested' } as const;
    expect(judge({ approval: approvalFacts, votes })).toMatchObject({
      status: 'context_requested',
      votesMissing: 1,
    });
  });

  it('refuses the act modify if it has no arguments', () => {
    expect(judge({ action: 'modify', effectiveDigest: undefined })).toMatchObject({
      code: 'approval.precondition_unmet',
    });
  });
});

describe('the conditions of a decision', () => {
  const asked = (action: ApprovalAction) => [{ principal: 'carol', role: 'approver', action }];

  it('include a requested re-authentication, which is checked in any state', () => {
    const attempt: Change = {
      approval: { status: 'context_requested' },
      votes: asked('require_reauth'),
    };
    expect(judge(attempt)).toMatchObject({ code: 'approval.precondition_unmet' });
    expect(judge({ ...attempt, reauthenticated: true })).toMatchObject({ status: 'approved' });
  });

  it('include a requested approval of the tool, which is checked in any state', () => {
    const attempt: Change = {
      approval: { status: 'escalated' },
      votes: asked('require_tool_reapproval'),
    };
    expect(judge(attempt)).toMatchObject({ code: 'approval.precondition_unmet' });
    expect(judge({ ...attempt, manifestApproved: true })).toMatchObject({ status: 'approved' });
  });

  it.each(['modify', 'require_tool_reapproval'] as const)(
    'forbid the act %s on the approval of a tool',
    (action) => {
      expect(judge({ action, approval: { kind: 'tool' } })).toMatchObject({
        code: 'approval.transition_invalid',
      });
    },
  );
});
