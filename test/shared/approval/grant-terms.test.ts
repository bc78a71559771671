import { describe, expect, it } from 'vitest';
import { judgeDecision, type Vote } from '../../../shared/approval/decide.ts';
import {
  agreeGrant,
  type GrantLimits,
  type GrantRequest,
  jointGrantLimits,
  type StandingGrant,
  satisfiesTerms,
} from '../../../shared/vocabulary/grant-terms.ts';
import type { ApprovalTerms } from '../../../shared/vocabulary/verdict.ts';
import { nowMs } from '../fixtures.ts';

const limits: GrantLimits = { uses: 10, ttlSeconds: 7_200, scope: 'tool' };
const narrow: GrantLimits = { uses: 10, ttlSeconds: 600, scope: 'action' };

describe('the terms of a standing grant', () => {
  const agreed: readonly [string, GrantRequest, GrantLimits, GrantLimits][] = [
    [
      'the default of once within an hour for this action',
      {},
      limits,
      { ...limits, uses: 1, ttlSeconds: 3_600, scope: 'action' },
    ],
    [
      'an hour, shortened to the limit of the rules',
      {},
      narrow,
      { uses: 1, ttlSeconds: 600, scope: 'action' },
    ],
    ['a number of uses only', { uses: 5 }, limits, { uses: 5, ttlSeconds: 3_600, scope: 'action' }],
    [
      'a time only, with the maximum number of uses',
      { ttlSeconds: 60 },
      limits,
      { uses: 10, ttlSeconds: 60, scope: 'action' },
    ],
    ['exactly the limits', { ...limits }, limits, limits],
  ];
  it.each(agreed)(
    'are derived from the request and the limits of the rules: %s',
    (_name, request, within, terms) => {
      expect(agreeGrant(request, { limits: within, riskTier: 'high' })).toEqual({
        ok: true,
        terms,
      });
    },
  );

  const refused: readonly [string, GrantRequest, GrantLimits | undefined, 'high' | 'critical'][] = [
    ['one use more than the rules allow', { uses: 11 }, limits, 'high'],
    ['one second more than the rules allow', { ttlSeconds: 7_201 }, limits, 'high'],
    ['scope tool if the rules allow scope action', { scope: 'tool' }, narrow, 'high'],
    ['any grant if the rules allow no standing grant', { uses: 1 }, undefined, 'high'],
    ['any grant for critical risk', { uses: 1 }, limits, 'critical'],
    ['an empty grant for critical risk', {}, limits, 'critical'],
  ];
  it.each(refused)('are refused if the request is: %s', (_name, request, within, riskTier) => {
    expect(agreeGrant(request, { limits: within, riskTier })).toMatchObject({
      ok: false,
      code: 'approval.grant_refused',
    });
  });

  it('are limited by the narrowest limits of several rules, and are refused if one of the rules allows no standing grant', () => {
    const wide = { max_uses: 100, max_ttl_seconds: 86_400, scope: 'tool' } as const;
    expect(jointGrantLimits([wide])).toEqual({ uses: 100, ttlSeconds: 86_400, scope: 'tool' });
    expect(jointGrantLimits([wide, { max_uses: 3, scope: 'tool' }])).toEqual({
      uses: 3,
      ttlSeconds: 3_600,
      scope: 'tool',
    });
    for (const order of [
      [wide, {}],
      [{}, wide],
    ]) {
      expect(jointGrantLimits(order)).toEqual({ uses: 1, ttlSeconds: 3_600, scope: 'action' });
    }
    expect(jointGrantLimits([wide, undefined])).toBeUndefined();
    expect(jointGrantLimits([undefined, wide])).toBeUndefined();
    expect(jointGrantLimits([])).toBeUndefined();
  });
});

describe('a grant on which several people decide', () => {
  const judge = (grant: GrantRequest | undefined, votes: readonly Vote[]) =>
    judgeDecision({
      approval: {
        kind: 'action',
        status: 'pending',
        agentId: '7',
        userId: 'alice',
        minRole: 'approver',
        quorum: 2,
        expiresAtMs: nowMs + 1_000,
        riskTier: 'high',
        grantLimits: limits,
        requestedBy: [],
      },
      decider: { principal: 'ben', role: 'approver' },
      action: 'approve',
      effectiveDigest: 'sha256:d',
      grant,
      nowMs,
      reauthenticated: true,
      manifestApproved: true,
      votes,
    });
  const anna = (grant?: GrantLimits): Vote => ({
    principal: 'anna',
    role: 'approver',
    action: 'approve',
    grant,
  });

  it('has the narrowest terms that these people requested', () => {
    const outcome = judge({ uses: 3, ttlSeconds: 6_000, scope: 'tool' }, [
      anna({ uses: 9, ttlSeconds: 60, scope: 'action' }),
    ]);
    expect(outcome).toMatchObject({ grant: { uses: 3, ttlSeconds: 60, scope: 'action' } });
  });

  it('covers a single call if one of these people granted a single call', () => {
    for (const outcome of [judge({ uses: 3 }, [anna()]), judge(undefined, [anna(limits)])]) {
      expect(outcome).toMatchObject({ ok: true, status: 'approved' });
      expect(outcome).not.toHaveProperty('grant', expect.anything());
    }
  });

  it('has the terms of the first person until the second person decides', () => {
    expect(judge({ uses: 3 }, [])).toMatchObject({
      status: 'pending',
      votesMissing: 1,
      grantAsked: { uses: 3 },
    });
  });
});

describe('a standing grant', () => {
  const grant: StandingGrant = {
    uses: 5,
    ttlSeconds: 600,
    scope: 'tool',
    agentId: '7',
    userId: 'alice',
    tool: 'pay',
    manifestHash: null,
    minRole: 'admin',
    quorum: 2,
  };
  const terms: ApprovalTerms = {
    channels: [],
    minRole: 'admin',
    quorum: 2,
    grant: { uses: 5, ttlSeconds: 600, scope: 'tool' },
  };
  const asked: readonly [string, Partial<ApprovalTerms>, boolean][] = [
    ['they have the same terms', {}, true],
    ['they require less', { minRole: 'approver', quorum: 1 }, true],
    ['they require a higher role', { minRole: 'owner' }, false],
    ['they require more people', { quorum: 3 }, false],
    ['they allow no standing grant', { grant: undefined }, false],
    ['they allow fewer uses', { grant: { ...grant, uses: 4 } }, false],
    ['they allow less time', { grant: { ...grant, ttlSeconds: 599 } }, false],
    ['they allow scope action only', { grant: { ...grant, scope: 'action' } }, false],
  ];
  it.each(asked)(
    'is compared with the active rules as expected if %s: case %#',
    (_name, now, covers) => {
      expect(satisfiesTerms(grant, { ...terms, ...now })).toBe(covers);
    },
  );
});
