import { describe, expect, it } from 'vitest';
import { signJws } from '../../../shared/crypto/jws.ts';
import {
  generateSigningKey,
  type SigningKey,
  verificationKeys,
} from '../../../shared/crypto/signing-key.ts';
import type { PassportClaims } from '../../../shared/passport/claims.ts';
import { passportType } from '../../../shared/passport/claims.ts';
import { signPassport } from '../../../shared/passport/issue.ts';
import { readPassport, readPassportAsync } from '../../../shared/passport/verify.ts';
import { baseClaims } from '../fixtures.ts';

const key = generateSigningKey();
const keys = verificationKeys([key.publicJwk]);
const sign = (claims: object, typ: string = passportType, by: SigningKey = key) =>
  signJws(claims, typ, by);
const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');

async function formOf(token: string): Promise<string> {
  const reading = readPassport(token, keys);
  expect(await readPassportAsync(token, keys)).toEqual(reading);
  return reading.form;
}

describe('reading a passport', () => {
  it('returns the claims of a signed passport', async () => {
    const token = signPassport(baseClaims, key);
    expect(readPassport(token, keys)).toEqual({ form: 'signed', claims: baseClaims });
    expect(await formOf(token)).toBe('signed');
  });

  it('succeeds after a key rotation as long as the old key is published', () => {
    const newKey = generateSigningKey();
    const both = verificationKeys([newKey.publicJwk, key.publicJwk]);
    expect(readPassport(signPassport(baseClaims, key), both).form).toBe('signed');
    expect(
      readPassport(signPassport(baseClaims, key), verificationKeys([newKey.publicJwk])),
    ).toMatchObject({ form: 'signature_invalid' });
  });

  it.each(['', 'x', 'a.b', 'a.b.c.d', '..', `${'a'.repeat(70_000)}.a.a`, 'ä.b.c', ' a.b.c'])(
    'rejects text that is not a compact JWS (%#)',
    async (token) => {
      expect(await formOf(token)).toBe('malformed');
    },
  );

  it('rejects an unsigned passport, however its algorithm "none" is spelled', async () => {
    for (const alg of ['none', 'None', 'HS256', 'ES256']) {
      const token = `${part({ alg, kid: key.kid, typ: passportType })}.${part(baseClaims)}.AA`;
      expect(await formOf(token)).toBe('malformed');
    }
  });

  it('rejects any change to a signed passport', async () => {
    const [header, body, signature] = signPassport(baseClaims, key).split('.');
    const richer = part({ ...baseClaims, allowed_tools: ['*'] });
    expect(await formOf(`${header}.${richer}.${signature}`)).toBe('signature_invalid');
    expect(await formOf(`${header}.${body}.${'A'.repeat(86)}`)).toBe('signature_invalid');
    expect(await formOf(`${header}.${body}.AA`)).toBe('signature_invalid');
  });

  it('rejects a passport that is signed with an unknown key, whatever its kid', async () => {
    const stranger = generateSigningKey();
    expect(await formOf(signPassport(baseClaims, stranger))).toBe('signature_invalid');
    const disguised = { ...stranger, kid: key.kid };
    expect(await formOf(signPassport(baseClaims, disguised))).toBe('signature_invalid');
  });

  it('rejects a signature by a key that has a different purpose', async () => {
    for (const typ of ['JWT', 'sallyport-section+jws', '']) {
      expect(await formOf(sign(baseClaims, typ))).toBe('malformed');
    }
  });

  it('ignores an ES256 key among the passport keys', () => {
    const teamKey = generateSigningKey('ES256');
    const token = sign(baseClaims, passportType, teamKey);
    expect(readPassport(token, verificationKeys([teamKey.publicJwk]))).toMatchObject({
      form: 'signature_invalid',
    });
  });

  const lifetimes: readonly [string, Partial<PassportClaims>][] = [
    ['that ends when it begins', { exp: baseClaims.iat }],
    ['that ends before it begins', { exp: baseClaims.iat - 1 }],
    ['that begins before the time of issue', { nbf: baseClaims.iat - 1 }],
    ['of more than an hour', { exp: baseClaims.iat + 3601 }],
    ['in fractions of a second', { exp: baseClaims.exp + 0.5 }],
    ['beyond safe integers', { exp: 2 ** 60 }],
    ['of more than a day for a lease', { lease_size: 5, exp: baseClaims.iat + 86_401 }],
  ];
  it.each(lifetimes)('rejects a passport with a lifetime %s', async (_, claims) => {
    expect(await formOf(sign({ ...baseClaims, ...claims }))).toBe('malformed');
  });

  it('accepts a lease with a lifetime of more than an hour', async () => {
    expect(await formOf(sign({ ...baseClaims, lease_size: 5, exp: baseClaims.iat + 7200 }))).toBe(
      'signed',
    );
  });

  it.each(Object.keys(baseClaims))('rejects a passport without the claim %s', async (name) => {
    expect(await formOf(sign({ ...baseClaims, [name]: undefined }))).toBe('malformed');
  });

  it.each([
    ['iss', ''],
    ['sub', 7],
    ['sub', ''],
    ['aud', ['gateway://agents']],
    ['tenant_id', null],
    ['goal', 5],
    ['allowed_tools', '*'],
    ['allowed_tools', [5]],
    ['allowed_tools', ['']],
    ['allowed_resources', null],
    ['resource_constraints', []],
    ['resource_constraints', null],
    ['risk_tier', 'none'],
    ['approval_hash', 5],
    ['jti', ''],
    ['jti', 'pp_1.0'],
    ['jti', 'a b'],
    ['iat', '1800000000'],
    ['exp', null],
    ['lease_size', 0],
    ['lease_size', -1],
    ['lease_size', 1.5],
    ['lease_size', null],
    ['max_uses', 1],
    ['__proto__x', 1],
  ])('rejects a passport whose %s is %j', async (name, value) => {
    expect(await formOf(sign({ ...baseClaims, [name]: value }))).toBe('malformed');
  });
});
