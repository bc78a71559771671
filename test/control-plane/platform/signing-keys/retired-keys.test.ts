import {
  calculateJwkThumbprint,
  createLocalJWKSet,
  type JSONWebKeySet,
  type JWK,
  jwtVerify,
} from 'jose';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { allRoutes } from '../../../../control-plane/routes.ts';
import { verifyEvidence } from '../../../../shared/contract/evidence/evidence.ts';
import { rotatablePurposes, rotateSigningKey } from '../../../../shared/contract/keys.ts';
import {
  getPassportJwks,
  issuePassport,
  verifyPassport,
} from '../../../../shared/contract/passports.ts';
import { signDetached, signJws, verifyDetached, verifyJws } from '../../../../shared/crypto/jws.ts';
import { verificationKeys } from '../../../../shared/crypto/signing-key.ts';
import { startApi, type TestApi } from '../../../support/control-plane/api.ts';
import { roomyLimits } from '../../../support/control-plane/gateway.ts';
import { type TestServices, testServices } from '../../../support/control-plane/services.ts';

let services: TestServices;
let api: TestApi;
let owner: Awaited<ReturnType<TestApi['client']>>;
beforeAll(async () => {
  services = await testServices();
  api = await startApi(allRoutes(services), services, { limits: roomyLimits });
  owner = await api.client();
});
afterAll(async () => {
  await api?.close();
  await services?.close();
});

const tenant = 'default';
type Purpose = (typeof rotatablePurposes)[number];
const rotate = (purpose: Purpose) => owner.call(rotateSigningKey, { body: { purpose } });
const issue = () =>
  owner.call(issuePassport, {
    body: {
      tenant_id: tenant,
      agent_id: 'agent-x',
      user_id: 'u',
      goal: 'Refund',
      allowed_tools: ['pay'],
      risk_tier: 'low',
      policy_id: 'p',
      audience: 'gateway://agents',
      ttl_seconds: 3600,
    },
  });
const verify = (passport: string) => owner.call(verifyPassport, { body: { passport } });
const keySet = async () => (await owner.call(getPassportJwks)) as JSONWebKeySet;

it('rotating a signing key without a body rotates the ES256 report key', async () => {
  const answer = await api.send('POST', '/api/v1/keys/signing/rotate', { key: await api.key() });
  expect(answer.body).toMatchObject({ purpose: 'report', alg: 'ES256' });
});

it.each(rotatablePurposes)(
  'every %s key has its thumbprint as key id, uses one algorithm, and is never deleted',
  async (purpose) => {
    const { signingKeys } = services;
    const first = await signingKeys.active(tenant, purpose);
    const text = `signed before ${purpose}`;
    const compact = signJws({ text }, `${purpose}+jws`, first);
    const detached = signDetached(text, `${purpose}+jws`, first);
    const rotated = [await rotate(purpose), await rotate(purpose)];
    expect(rotated[0]?.retired_key_id).toBe(first.kid);
    const jwks = await signingKeys.publicKeys(tenant, purpose);
    expect(jwks[0]?.kid).toBe(rotated[1]?.active_key_id);
    for (const jwk of jwks) {
      expect(jwk.kid).toBe(await calculateJwkThumbprint({ ...jwk } as JWK, 'sha256'));
      expect(jwk.crv).toBe(purpose === 'report' ? 'P-256' : 'Ed25519');
    }
    const keys = verificationKeys(jwks);
    expect(verifyJws(compact, `${purpose}+jws`, keys)).toMatchObject({ ok: true });
    expect(verifyDetached(detached, text, `${purpose}+jws`, keys)).toBe(true);
    // The same bytes are invalid for any other purpose, even with the same key.
    for (const other of rotatablePurposes.filter((name) => name !== purpose)) {
      expect(verifyJws(compact, `${other}+jws`, keys)).toMatchObject({ ok: false });
      expect(verifyDetached(detached, text, `${other}+jws`, keys)).toBe(false);
    }
  },
);

it('a passport remains valid through two rotations of its key, until it expires', async () => {
  const { passport } = await issue();
  const { kid } = await services.signingKeys.active(tenant, 'passport');
  await rotate('passport');
  await rotate('passport');
  const later = await issue();
  for (const one of [passport, later.passport]) {
    expect(await verify(one)).toMatchObject({ valid: true });
    const { clock } = services;
    await jwtVerify(one, createLocalJWKSet(await keySet()), {
      algorithms: ['EdDSA'],
      typ: 'action-passport+jwt',
      currentDate: new Date(clock.now()),
    });
  }
  services.clock.advance(3_600_000 + 601_000);
  const kids = (await keySet()).keys.map((key) => key.kid);
  expect(kids).not.toContain(kid);
  expect(kids).toHaveLength(1);
});

it.each(['report', 'export', 'checkpoint', 'certificate', 'sync'] as const)(
  'a passport signed with the tenant’s %s key is invalid',
  async (purpose) => {
    const { claims } = await issue();
    const key = await services.signingKeys.active(tenant, purpose);
    const forged = signJws(claims, 'action-passport+jwt', key);
    const report = await verify(forged);
    expect(report.valid).toBe(false);
    expect(report.errors.map(({ reason_code }) => reason_code)).toContain(
      'passport.signature_invalid',
    );
  },
);

it('signed heads of the ledger remain valid across rotations of the checkpoint key', async () => {
  await issue();
  await rotate('checkpoint');
  await issue();
  await rotate('checkpoint');
  await issue();
  const { pool } = services;
  const { rows } = await pool.query(
    'SELECT DISTINCT kid FROM evidence_batch WHERE tenant_id = $1',
    [tenant],
  );
  expect(rows.length).toBeGreaterThanOrEqual(3);
  expect(await owner.call(verifyEvidence)).toMatchObject({ ok: true });
});
