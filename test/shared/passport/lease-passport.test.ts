import { describe, expect, it } from 'vitest';
import { newId } from '../../../shared/base/ids.ts';
import {
  isRevoked,
  issuedBeforeEpoch,
  leasePassport,
  revocationId,
} from '../../../shared/passport/lease-passport.ts';
import { baseClaims, nowMs } from '../fixtures.ts';

const lease = { ...baseClaims, lease_size: 3 };

describe('a lease', () => {
  it('has a separate jti for each use, which contains the jti of the lease', () => {
    const uses = [0, 1, 2].map((n) => leasePassport(lease, n).jti);
    expect(uses).toEqual([0, 1, 2].map((n) => `${lease.jti}.${n}`));
    expect(uses.map(revocationId)).toEqual([lease.jti, lease.jti, lease.jti]);
  });

  it.each([3, -1, 0.5, Number.NaN, 2 ** 53])(
    'has no use with the number %s if it allows three uses',
    (n) => {
      expect(() => leasePassport(lease, n)).toThrow(
        expect.objectContaining({ code: 'passport.lease_exhausted' }),
      );
    },
  );

  it('is the only kind of passport with numbered uses', () => {
    expect(() => leasePassport(baseClaims, 0)).toThrow(
      expect.objectContaining({ code: 'passport.lease_exhausted' }),
    );
  });

  it('is revoked with all of its uses; other passports stay valid', () => {
    const revoked = new Set([lease.jti]);
    expect(isRevoked(`${lease.jti}.2`, revoked)).toBe(true);
    expect(isRevoked(lease.jti, revoked)).toBe(true);
    expect(isRevoked(`${lease.jti}0.2`, revoked)).toBe(false);
    expect(isRevoked('pp_other', revoked)).toBe(false);
  });

  it('allows the revocation of a single use', () => {
    const revoked = new Set([`${lease.jti}.1`]);
    expect(isRevoked(`${lease.jti}.1`, revoked)).toBe(true);
    expect(isRevoked(`${lease.jti}.2`, revoked)).toBe(false);
  });
});

describe('the single-use guarantee after a loss of claims', () => {
  it('does not hold for a passport that was issued before the epoch', () => {
    const jti = newId('pp', nowMs);
    expect(issuedBeforeEpoch(jti, nowMs + 1)).toBe(true);
    expect(issuedBeforeEpoch(jti, nowMs)).toBe(false);
    expect(issuedBeforeEpoch(jti, nowMs - 1)).toBe(false);
  });

  it('depends on the issue time of the lease if the passport is a use of a lease', () => {
    expect(issuedBeforeEpoch(`${newId('pp', nowMs)}.5`, nowMs - 1)).toBe(false);
  });

  it.each(['', 'x', 'pp_', '018f', 'pp_zzzz'])(
    'does not hold for the id %j, whose time of issue is unknown',
    (jti) => {
      expect(issuedBeforeEpoch(jti, 0)).toBe(true);
    },
  );
});
