import { exportJWK, exportSPKI, generateKeyPair, importJWK, SignJWT, UnsecuredJWT } from 'jose';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { refusalOf } from '../../support/control-plane/gateway.ts';
import {
  billingPod,
  type Changes,
  claimsOf,
  type SignOptions,
} from '../../support/control-plane/oidc-issuer.ts';
import { podKeys, proofOf, startWorkloadStage, type WorkloadStage } from './stage.ts';

let stage: WorkloadStage;
beforeAll(async () => {
  stage = await startWorkloadStage();
  await stage.put('refunds');
});
afterAll(() => stage.close());

const nowSeconds = () => Math.floor(stage.gateway.services.clock.now() / 1000);
const kubernetes = (changes: object) => ({
  'kubernetes.io': {
    ...(claimsOf('', billingPod, 0)['kubernetes.io'] as object),
    ...changes,
  },
});

/** Wrong claims, each with the reason code of the refusal. */
const wrongClaims: readonly (readonly [what: string, code: string, changes: () => Changes])[] = [
  ['another issuer', 'workload.issuer_unknown', () => ({ iss: 'https://other.example' })],
  ['no issuer', 'workload.issuer_unknown', () => ({ iss: undefined })],
  [
    'its issuer with a slash',
    'workload.issuer_unknown',
    () => ({ iss: `${stage.issuer.issuer}/` }),
  ],
  [
    'its issuer in upper case',
    'workload.issuer_unknown',
    () => ({ iss: stage.issuer.issuer.toUpperCase() }),
  ],
  ['a list of issuers', 'workload.issuer_unknown', () => ({ iss: [stage.issuer.issuer] })],
  ['no audience', 'workload.claims_invalid', () => ({ aud: undefined })],
  ['an empty list of audiences', 'workload.claims_invalid', () => ({ aud: [] })],
  ['another audience', 'workload.audience_mismatch', () => ({ aud: ['vault'] })],
  ['a further audience', 'workload.audience_mismatch', () => ({ aud: ['sallyport', 'vault'] })],
  [
    'its audience as a prefix',
    'workload.audience_mismatch',
    () => ({ aud: ['sallyport.example'] }),
  ],
  ['a numeric audience', 'workload.claims_invalid', () => ({ aud: 7 })],
  ['no expiry', 'workload.claims_invalid', () => ({ exp: undefined })],
  ['an expiry that is text', 'workload.claims_invalid', () => ({ exp: '9999999999' })],
  ['an expiry in the past', 'workload.token_expired', () => ({ exp: nowSeconds() - 11 })],
  ['a start in the future', 'workload.token_not_yet_valid', () => ({ nbf: nowSeconds() + 11 })],
  ['no start', 'workload.claims_invalid', () => ({ nbf: undefined })],
  ['no time of issue', 'workload.claims_invalid', () => ({ iat: undefined })],
  [
    'a time of issue in the future',
    'workload.token_not_yet_valid',
    () => ({ iat: nowSeconds() + 11 }),
  ],
  [
    'a time of issue more than an hour ago',
    'workload.token_expired',
    () => ({
      iat: nowSeconds() - 3_611,
      nbf: nowSeconds() - 3_611,
      exp: nowSeconds() + 31_536_000,
    }),
  ],
  ['no subject', 'workload.claims_invalid', () => ({ sub: undefined })],
  [
    'the subject of another service account',
    'workload.claims_invalid',
    () => ({ sub: 'system:serviceaccount:billing:default' }),
  ],
  [
    'the subject of another namespace',
    'workload.claims_invalid',
    () => ({ sub: 'system:serviceaccount:kube-system:refund-agent' }),
  ],
  ['the subject of a user', 'workload.claims_invalid', () => ({ sub: 'alice' })],
  ['no Kubernetes claim', 'workload.claims_invalid', () => ({ 'kubernetes.io': undefined })],
  [
    'another namespace in one claim',
    'workload.claims_invalid',
    () => kubernetes({ namespace: 'other' }),
  ],
  ['no namespace', 'workload.claims_invalid', () => kubernetes({ namespace: undefined })],
  [
    'a namespace that is a list',
    'workload.claims_invalid',
    () => kubernetes({ namespace: ['billing'] }),
  ],
  [
    'no service account',
    'workload.claims_invalid',
    () => kubernetes({ serviceaccount: undefined }),
  ],
  [
    'a service account without uid',
    'workload.claims_invalid',
    () => kubernetes({ serviceaccount: { name: 'refund-agent' } }),
  ],
  ['no pod', 'workload.pod_unbound', () => kubernetes({ pod: undefined })],
  ['a pod without uid', 'workload.claims_invalid', () => kubernetes({ pod: { name: 'x' } })],
  [
    'a pod with an empty uid',
    'workload.claims_invalid',
    () => kubernetes({ pod: { name: 'x', uid: '' } }),
  ],
  [
    'a service account without rule',
    'workload.rule_missing',
    () => ({
      ...kubernetes({ serviceaccount: { name: 'default', uid: 'a2' } }),
      sub: 'system:serviceaccount:billing:default',
    }),
  ],
  [
    'a namespace without rule',
    'workload.rule_missing',
    () => ({
      ...kubernetes({ namespace: 'billing2' }),
      sub: 'system:serviceaccount:billing2:refund-agent',
    }),
  ],
  [
    'a wildcard for a service account',
    'workload.rule_missing',
    () => ({
      ...kubernetes({ serviceaccount: { name: '*', uid: 'a2' } }),
      sub: 'system:serviceaccount:billing:*',
    }),
  ],
];

describe('a workload token', () => {
  it('enrols a sidecar if every claim is correct', async () => {
    const enrolled = await stage.enrol(await stage.issuer.token());
    expect(enrolled).toMatchObject({ agent_id: stage.agentId, user_id: 'user-1' });
  });

  it.each(wrongClaims)('is refused with %s: %s', async (_what, code, changes) => {
    const before = await stage.gateway.services.db.sidecar.count();
    const error = await refusalOf(stage.enrol(await stage.issuer.token(changes())));
    expect(error.code).toBe(code);
    expect(await stage.gateway.services.db.sidecar.count()).toBe(before);
  });

  it.each([
    ['its expiry within the tolerance', () => ({ exp: nowSeconds() - 9 })],
    ['its start within the tolerance', () => ({ nbf: nowSeconds() + 9, iat: nowSeconds() + 9 })],
    ['its audience as text', () => ({ aud: 'sallyport' })],
  ])('is accepted with %s', async (_what, changes) => {
    expect(await stage.enrol(await stage.issuer.token(changes()))).toHaveProperty('sidecar_id');
  });
});

describe('a forged workload token', () => {
  const signed = (changes: Changes, options: SignOptions) => stage.issuer.token(changes, options);
  const claims = () =>
    claimsOf(stage.issuer.issuer, billingPod, stage.gateway.services.clock.now());

  it('is refused without a signature (alg none)', async () => {
    const token = new UnsecuredJWT(claims()).encode();
    expect((await refusalOf(stage.enrol(token))).code).toBe('workload.algorithm_refused');
  });

  it('is refused if it was signed by HMAC with the public key as the secret', async () => {
    const [jwk = {}] = stage.issuer.jwks().keys;
    const publicKey = (await importJWK(jwk, 'RS256')) as Parameters<typeof exportSPKI>[0];
    const pem = await exportSPKI(publicKey);
    for (const alg of ['HS256', 'HS384', 'HS512']) {
      const token = await signed({}, { header: { alg }, key: Buffer.from(pem) });
      expect((await refusalOf(stage.enrol(token))).code).toBe('workload.algorithm_refused');
    }
  });

  it.each(['RS384', 'RS512', 'PS256', 'ES384', 'EdDSA'])('is refused: alg %s', async (alg) => {
    const { privateKey } = await generateKeyPair(alg);
    const token = await signed({}, { header: { alg }, key: privateKey });
    expect((await refusalOf(stage.enrol(token))).code).toBe('workload.algorithm_refused');
  });

  it('is refused if another key signed it under the issuer’s key id', async () => {
    const { privateKey } = await generateKeyPair('RS256');
    const token = await signed({}, { key: privateKey });
    expect((await refusalOf(stage.enrol(token))).code).toBe('workload.signature_invalid');
  });

  it('is refused if its payload was changed after it was signed', async () => {
    const [head, , signature] = (await stage.issuer.token()).split('.');
    const [, body] = (await stage.issuer.token({ aud: ['sallyport'], jti: 'x' })).split('.');
    const error = await refusalOf(stage.enrol(`${head}.${body}.${signature}`));
    expect(error.code).toBe('workload.signature_invalid');
  });

  it('is refused if its header contains its own key or a key URL', async () => {
    const { privateKey, publicKey } = await generateKeyPair('RS256', { extractable: true });
    const header = {
      jwk: await exportJWK(publicKey),
      jku: 'https://127.0.0.1:1/keys',
      kid: 'mine',
    };
    const token = await signed({}, { header, key: privateKey });
    expect((await refusalOf(stage.enrol(token))).code).toBe('workload.key_unknown');
  });

  it.each([
    ['an unknown key id', { kid: 'another' }],
    ['no key id', { kid: undefined }],
  ])('is refused with %s', async (_what, header) => {
    const token = await signed({}, { header });
    expect((await refusalOf(stage.enrol(token))).code).toBe('workload.key_unknown');
  });

  it('is refused with a critical header extension', async () => {
    const { privateKey } = await generateKeyPair('RS256');
    const token = await new SignJWT(claims())
      .setProtectedHeader({ alg: 'RS256', kid: stage.issuer.kid, crit: ['exp'], exp: 1 })
      .sign(privateKey, { crit: { exp: true } });
    expect((await refusalOf(stage.enrol(token))).code).toBe('workload.token_malformed');
  });

  it.each([
    'x',
    'a.b.c',
    'set_QmFzZTY0VVJMb2YzMnJhbmRvbWJ5dGVzMDEyMzQ1Njc',
    '..',
    `${'e'.repeat(9_000)}.e.e`,
  ])('is refused if it is not a JWT: %.20s', async (token) => {
    expect((await refusalOf(stage.enrol(token))).code).toBe('workload.token_malformed');
  });
});

describe('the proof of the signing key', () => {
  it.each([
    ['for another token', { token_sha256: 'a'.repeat(64) }],
    ['for another encryption key', { encryption_x: 'hSDwCYkwp1R0i33ctD73Wg2_Og0mOBr066SpjqqbTmo' }],
    ['for another recipient', { aud: 'somebody' }],
  ])('is refused if it is %s', async (_what, change) => {
    const keys = await podKeys();
    const token = await stage.issuer.token();
    const proof = proofOf(keys, token, change);
    expect((await refusalOf(stage.enrol(token, { proof }, keys))).code).toBe(
      'workload.proof_invalid',
    );
  });

  it('is refused if another key signed it', async () => {
    const token = await stage.issuer.token();
    const proof = proofOf(await podKeys(), token);
    expect((await refusalOf(stage.enrol(token, { proof }))).code).toBe('workload.proof_invalid');
  });
});
