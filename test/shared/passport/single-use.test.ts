import { describe, expect, it } from 'vitest';
import { newId } from '../../../shared/base/ids.ts';
import {
  isRevoked,
  issuedBeforeEpoch,
  leasePassport,
  revocationId,
} from '../../../shared/passport/single-use.ts';
import { baseClaims, nowMs } from '../fixtures.ts';

const lease = { ...baseClaims, lease_size: 3 };

describe('leases', () => {
  it('each use of a lease has a jti of its own that leads back to the lease', () => {
    const uses = [0, 1, 2].map((n) => leasePassport(lease, n).jti);
    expect(uses).toEqual([0, 1, 2].map((n) => `${lease.jti}.${n}`));
    expect(uses.map(revocationId)).toEqual([lease.jti, lease.jti, lease.jti]);
  });

  it.each([3, -1, 0.5, Number.NaN, 2 ** 53])('a lease of three has no use number %s', (n) => {
    expect(() => leasePassport(lease, n)).toThrow(
      expect.objectContaining({ code: 'passport.lease_exhausted' }),
    );
  });

  it('a passport that is no lease has no uses to number', () => {
    expect(() => leasePassport(baseClaims, 0)).toThrow(
      expect.objectContaining({ code: 'passport.lease_exhausted' }),
    );
  });

  it('revoking a lease revokes every use of it, and no other', () => {
    const revoked = new Set([lease.jti]);
    expect(isRevoked(`${lease.jti}.2`, revoked)).toBe(true);
    expect(isRevoked(lease.jti, revoked)).toBe(true);
    expect(isRevoked(`${lease.jti}0.2`, revoked)).toBe(false);
    expect(isRevoked('pp_other', revoked)).toBe(false);
  });

  it('one use can be revoked alone', () => {
    const revoked = new Set([`${lease.jti}.1`]);
    expect(isRevoked(`${lease.jti}.1`, revoked)).toBe(true);
    expect(isRevoked(`${lease.jti}.2`, revoked)).toBe(false);
  });
});

describe('the memory of claims', () => {
  it('a passport issued before the memory began cannot be assured', () => {
    const jti = newId('pp', nowMs);
    expect(issuedBeforeEpoch(jti, nowMs + 1)).toBe(true);
    expect(issuedBeforeEpoch(jti, nowMs)).toBe(false);
    expect(issuedBeforeEpoch(jti, nowMs - 1)).toBe(false);
  });

  it('uses of a lease are as old as the lease', () => {
    expect(issuedBeforeEpoch(`${newId('pp', nowMs)}.5`, nowMs - 1)).toBe(false);
  });

  it.each(['', 'x', 'pp_', '018f', 'pp_zzzz'])(
    'an id of unknown age (%j) cannot be assured',
    (jti) => {
      expect(issuedBeforeEpoch(jti, 0)).toBe(true);
    },
  );
});
