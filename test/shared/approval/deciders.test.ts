import { describe, expect, it } from 'vitest';
import { higherRisk, stricterTerms } from '../../../shared/approval/stricter-terms.ts';
import { decidersSuffice, minimumDeciders } from '../../../shared/vocabulary/deciders.ts';

describe('the deciders of a grant', () => {
  const roles = ['approver', 'admin', 'owner'];

  it('satisfy a rule if their lowest role and their number are at least what the rule requires', () => {
    for (const [have, role] of roles.entries())
      for (const [need, minRole] of roles.entries())
        for (const count of [1, 2, 3])
          for (const quorum of [1, 2, 3]) {
            const suffices = decidersSuffice({ role, count }, { minRole, quorum });
            expect(suffices).toBe(have >= need && count >= quorum);
          }
  });

  it('satisfy no rule if they are unknown or their role does not permit decisions', () => {
    expect(decidersSuffice(undefined, { minRole: 'approver', quorum: 1 })).toBe(false);
    expect(decidersSuffice({ role: 'agent', count: 9 }, { minRole: 'agent', quorum: 1 })).toBe(
      false,
    );
  });

  it('are assumed to be the minimum that the terms require if only the terms are stored', () => {
    expect(minimumDeciders({ minRole: 'admin', quorum: 2 })).toEqual({ role: 'admin', count: 2 });
    expect(minimumDeciders({ minRole: 'developer', quorum: 1 })).toEqual({
      role: 'approver',
      count: 1,
    });
  });
});

describe('combining the terms of two rules', () => {
  const grant = { uses: 3, ttlSeconds: 600, scope: 'tool' } as const;
  const one = { channels: ['a'], minRole: 'owner', quorum: 1, slaSeconds: 60, grant };
  const other = { channels: ['b', 'a'], minRole: 'admin', quorum: 4 };

  it('takes the higher role, the larger quorum and all channels, and permits only a single call if one of the rules allows no standing grant', () => {
    const both = { channels: ['a', 'b'], minRole: 'owner', quorum: 4, slaSeconds: 60 };
    expect(stricterTerms(one, other)).toEqual(both);
    expect(stricterTerms(other, one)).toEqual({
      ...both,
      channels: ['b', 'a'],
      slaSeconds: undefined,
    });
  });

  it('takes the narrower grant and the higher risk', () => {
    const narrow = { uses: 9, ttlSeconds: 60, scope: 'action' } as const;
    expect(stricterTerms(one, { ...other, grant: narrow }).grant).toEqual({
      uses: 3,
      ttlSeconds: 60,
      scope: 'action',
    });
    expect(higherRisk('low', 'critical')).toBe('critical');
    expect(higherRisk('high', 'medium')).toBe('high');
  });
});
