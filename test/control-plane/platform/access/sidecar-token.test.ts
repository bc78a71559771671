import { afterAll, expect, it } from 'vitest';
import { sidecarTokenType } from '../../../../shared/contract/sidecar-token.ts';
import { signJws } from '../../../../shared/crypto/jws.ts';
import { generateSigningKey } from '../../../../shared/crypto/signing-key.ts';
import { startApi } from '../../../support/control-plane/api.ts';
import { probeRoutes } from '../../../support/control-plane/probe-routes.ts';
import { testServices } from '../../../support/control-plane/services.ts';

const services = await testServices();
const api = await startApi(probeRoutes({}), services);
const key = generateSigningKey();

await enrol('sc_1', { tenantId: 't1', agentId: '7' });
await enrol('sc_other', { tenantId: 't2', agentId: '8' });
await enrol('sc_revoked', { tenantId: 't1', agentId: '7', revokedAt: new Date() });

afterAll(async () => {
  await api.close();
  await services.close();
});

async function enrol(
  id: string,
  { tenantId, agentId, revokedAt }: { tenantId: string; agentId: string; revokedAt?: Date },
) {
  const signingKey = id === 'sc_other' ? generateSigningKey() : key;
  await services.db.sidecar.create({
    data: {
      id,
      tenantId,
      agentId,
      userId: 'user_1',
      environment: 'prod',
      signingJwk: { ...signingKey.publicJwk },
      encryptionJwk: {},
      ...(revokedAt === undefined ? {} : { revokedAt }),
    },
  });
}

const now = () => Math.floor(services.clock.now() / 1000);
const claims = (more: object = {}, id = 'sc_1') => ({
  iss: id,
  sub: id,
  aud: 'sallyport-control-plane',
  iat: now(),
  exp: now() + 60,
  jti: 'st_1',
  ...more,
});
const ask = (token: string, path = '/api/v1/probe/as-sidecar') =>
  api.send('GET', path, { key: token });
const signed = (payload: object, typ = sidecarTokenType, by = key) => signJws(payload, typ, by);

it('a sidecar token authenticates the sidecar that signed it, with the sidecar’s tenant and agent', async () => {
  const answer = await ask(signed(claims()));
  expect(answer.body).toEqual({
    sidecarId: 'sc_1',
    agentId: '7',
    principal: 'sidecar:sc_1',
    tenantId: 't1',
  });
});

it.each<[string, () => string]>([
  ['was signed by another key', () => signed(claims(), sidecarTokenType, generateSigningKey())],
  ['names a sidecar that did not sign it', () => signed(claims({}, 'sc_other'))],
  ['names a sidecar that was never enrolled', () => signed(claims({}, 'sc_none'))],
  ['has two different names', () => signed(claims({ sub: 'sc_other' }))],
  ['has the type of an action passport', () => signed(claims(), 'action-passport+jwt')],
  ['has a wrong audience', () => signed(claims({ aud: 'elsewhere' }))],
  ['has no audience', () => signed(claims({ aud: undefined }))],
  ['expired', () => signed(claims({ iat: now() - 120, exp: now() - 60 }))],
  ['was issued in the future', () => signed(claims({ iat: now() + 120, exp: now() + 150 }))],
  ['lives longer than a minute', () => signed(claims({ exp: now() + 61 }))],
  ['ends before it begins', () => signed(claims({ iat: now() + 10, exp: now() }))],
  ['has no times', () => signed(claims({ iat: undefined, exp: undefined }))],
  ['has fractional times', () => signed(claims({ exp: now() + 0.5 }))],
  ['has no jti', () => signed(claims({ jti: undefined }))],
  ['is not a JWT', () => 'a.b'],
  ['has a body that is not JSON', () => 'eyJhbGciOiJFZERTQSJ9.AAAA.AAAA'],
  ['is too long', () => signed(claims({ pad: 'x'.repeat(5_000) }))],
])('a token is refused if it %s', async (_what, token) => {
  const answer = await ask(token());
  expect([answer.status, answer.body?.reason_code]).toEqual([401, 'auth.sidecar_required']);
});

it('a revoked sidecar gets an error that states the revocation', async () => {
  const answer = await ask(signed(claims({}, 'sc_revoked')));
  expect([answer.status, answer.body?.reason_code]).toEqual([401, 'sidecar.revoked']);
});

it('an unsigned token is refused', async () => {
  const none = Buffer.from('{"alg":"none","typ":"sallyport-sidecar+jwt"}').toString('base64url');
  const body = Buffer.from(JSON.stringify(claims())).toString('base64url');
  expect((await ask(`${none}.${body}.`)).status).toBe(401);
  expect((await ask(`${none}.${body}.AAAA`)).status).toBe(401);
});

it('a sidecar token gives access to sidecar operations only, and an API key gives access to none of them', async () => {
  expect((await ask(signed(claims()), '/api/v1/probe/search')).status).toBe(401);
  expect((await ask(await api.key())).status).toBe(401);
});
