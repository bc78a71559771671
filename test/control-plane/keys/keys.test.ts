import { afterAll, describe, expect, it } from 'vitest';
import { keyRoutes } from '../../../control-plane/keys/routes.ts';
import * as contract from '../../../shared/contract/keys.ts';
import { isApiKey } from '../../../shared/crypto/api-key.ts';
import { generateSigningKey } from '../../../shared/crypto/signing-key.ts';
import { GatewayError } from '../../../shared/errors/gateway-error.ts';
import { tenantSections } from '../../../shared/sync/sections.ts';
import { type KeyHolderOptions, startApi } from '../../support/control-plane/api.ts';
import { eventsOf } from '../../support/control-plane/services.ts';
import { startWatchedApi } from '../../support/control-plane/watched-api.ts';

const { services, api, moved, close } = await startWatchedApi(keyRoutes, {
  env: { SALLYPORT_DEV_KEYS: 'apk_dev_owner=default:owner:tenant:dev' },
});
afterAll(close);

type Wanted = Parameters<typeof make>[1];

async function make(
  holder: KeyHolderOptions | string,
  wanted: {
    name?: string;
    role: contract.Role;
    scope?: contract.KeyScope;
    principal?: string;
    agent_id?: number;
    expires_at?: string;
  },
) {
  const client = await api.client(holder);
  return client.call(contract.createKey, { body: { name: 'new', ...wanted } });
}

const listWith = (key: string) => api.send('GET', '/api/v1/keys', { key });

async function refusal(promise: Promise<unknown>): Promise<string> {
  try {
    await promise;
  } catch (error) {
    if (error instanceof GatewayError) return error.code;
    throw error;
  }
  return 'nothing';
}

async function events(type: string, tenantId = 'default') {
  return (await eventsOf(services, tenantId)).filter((event) => event.type === type);
}

describe('a new key', () => {
  it('works at once; the response contains it only once, and only a keyed hash is stored', async () => {
    const made = await make({}, { name: 'reader', role: 'auditor' });
    expect(isApiKey(made.key)).toBe(true);
    const listed = await listWith(made.key);
    expect(listed.status).toBe(200);
    expect(listed.text).not.toContain(made.key);
    const row = await services.db.apiKey.findUniqueOrThrow({ where: { id: made.id } });
    expect(JSON.stringify(row)).not.toContain(made.key.slice(8, -4));
    expect(row).toMatchObject({ role: 'auditor', scope: 'tenant', principal: 'reader' });
  });

  it('is recorded in an event that does not contain the key', async () => {
    const made = await make({ principal: 'alice' }, { name: 'proved', role: 'agent' });
    const event = (await events('key.created')).find(({ data }) => data.key_id === made.id);
    expect(event?.data).toMatchObject({ by: 'alice', name: 'proved', role: 'agent' });
    expect(JSON.stringify(event)).not.toContain(made.key);
  });

  it('belongs to its creator’s tenant', async () => {
    const made = await make({ tenantId: 'acme' }, { role: 'owner' });
    const rows = (await listWith(made.key)).body?.keys as { id: string }[];
    expect(rows.map(({ id }) => id)).toContain(made.id);
    const row = await services.db.apiKey.findUniqueOrThrow({ where: { id: made.id } });
    expect(row.tenantId).toBe('acme');
  });

  it.each<[string, KeyHolderOptions, Wanted]>([
    ['an owner key created by an admin', { role: 'admin' }, { role: 'owner' }],
    ['a gateway-scope key created by a tenant-scope admin', { role: 'admin' }, { role: 'gateway' }],
    [
      'a key created by an admin for a different principal',
      { role: 'admin' },
      { role: 'approver', principal: 'bob' },
    ],
    ['an unbound key created by a bound key', { agentId: 7 }, { role: 'agent' }],
  ])('never has more rights than its creator: %s', async (_what, holder, wanted) => {
    expect(await refusal(make(holder, wanted))).toBe('key.role_exceeds_own');
  });

  it('has its creator’s principal, whatever the key’s name, unless an owner sets another principal', async () => {
    const admin = { role: 'admin', principal: 'mallory' } as const;
    expect((await make(admin, { name: 'alice', role: 'approver' })).principal).toBe('mallory');
    expect((await make({}, { name: 'bob', role: 'approver' })).principal).toBe('bob');
    const named = await make({}, { name: 'bob 2', role: 'approver', principal: 'bob' });
    expect(named.principal).toBe('bob');
    const sidecar = make({}, { name: 'sidecar:1', role: 'approver' });
    expect(await refusal(sidecar)).toBe('args.schema_invalid');
  });

  it('can have gateway scope if its creator has this scope or is an owner', async () => {
    expect((await make({}, { role: 'gateway' })).scope).toBe('gateway');
    const admin = { role: 'admin', scope: 'gateway' } as const;
    expect((await make(admin, { role: 'gateway' })).scope).toBe('gateway');
    expect((await make({}, { role: 'gateway', scope: 'tenant' })).scope).toBe('tenant');
  });

  it('can be bound to an agent of its tenant only', async () => {
    const { id } = await services.db.agent.create({
      data: { tenantId: 'default', name: 'bot', capabilities: [] },
    });
    const made = await make({}, { role: 'agent', agent_id: id });
    expect(made.agent_id).toBe(id);
    expect(await refusal(make({ tenantId: 'acme' }, { role: 'agent', agent_id: id }))).toBe(
      'agent.not_found',
    );
  });

  it('expires no later than the admin key that created it', async () => {
    const expiresAt = new Date(services.clock.now() + 60_000);
    const later = new Date(services.clock.now() + 120_000).toISOString();
    const admin = await api.key({ role: 'admin', expiresAt });
    expect((await make(admin, { role: 'auditor' })).expires_at).toBe(expiresAt.toISOString());
    expect(await refusal(make(admin, { role: 'auditor', expires_at: later }))).toBe(
      'key.role_exceeds_own',
    );
    const owner = await api.key({ expiresAt });
    expect((await make(owner, { role: 'auditor' })).expires_at).toBeNull();
  });

  it('cannot be created with an expiry in the past', async () => {
    const past = new Date(services.clock.now()).toISOString();
    expect(await refusal(make({}, { role: 'auditor', expires_at: past }))).toBe(
      'args.schema_invalid',
    );
  });
});

describe('a key', () => {
  it('is refused from the moment it expires', async () => {
    const key = await api.key({ expiresAt: new Date(services.clock.now() + 500) });
    expect((await listWith(key)).status).toBe(200);
    services.clock.advance(500);
    const { status, body } = await listWith(key);
    expect(status).toBe(401);
    expect(body).toMatchObject({
      reason_code: 'auth.invalid_key',
      error: expect.stringMatching(/^The API key expired at \d{4}-.*: create another key/),
    });
  });

  it('is refused as soon as its revocation is confirmed, even while it is in use', async () => {
    const made = await make({}, { role: 'auditor' });
    expect((await listWith(made.key)).status).toBe(200);
    const owner = await api.client({ principal: 'alice' });
    const revoked = await owner.call(contract.revokeKey, { body: { id: made.id } });
    expect(revoked.revoked_at).not.toBeNull();
    const answer = await listWith(made.key);
    expect([answer.status, answer.body?.reason_code]).toEqual([401, 'auth.invalid_key']);
    const event = (await events('key.revoked')).find(({ data }) => data.key_id === made.id);
    expect(event?.data.by).toBe('alice');
  });

  it('is refused on other replicas within a second of its revocation', async () => {
    const replica = { ...services };
    const other = await startApi(keyRoutes(replica), replica);
    const made = await make({}, { role: 'auditor' });
    const ask = () => other.send('GET', '/api/v1/keys', { key: made.key });
    expect((await ask()).status).toBe(200);
    await (await api.client()).call(contract.revokeKey, { body: { id: made.id } });
    services.clock.advance(1_000);
    expect((await ask()).status).toBe(401);
    await other.close();
  });

  it('stays revoked: a second revocation changes nothing and is not recorded', async () => {
    const made = await make({}, { role: 'auditor' });
    const owner = await api.client();
    const first = await owner.call(contract.revokeKey, { body: { id: made.id } });
    services.clock.advance(1_000);
    const second = await owner.call(contract.revokeKey, { body: { id: made.id } });
    expect(second.revoked_at).toBe(first.revoked_at);
    const proofs = (await events('key.revoked')).filter(({ data }) => data.key_id === made.id);
    expect(proofs).toHaveLength(1);
  });

  it('is revoked only once if many requests revoke it concurrently', async () => {
    const made = await make({}, { role: 'auditor' });
    const owner = await api.client();
    await Promise.all(
      Array.from({ length: 8 }, () => owner.call(contract.revokeKey, { body: { id: made.id } })),
    );
    const proofs = (await events('key.revoked')).filter(({ data }) => data.key_id === made.id);
    expect(proofs).toHaveLength(1);
  });

  it('with the role owner can be revoked only by an owner', async () => {
    const made = await make({}, { role: 'owner' });
    const admin = await api.client({ role: 'admin' });
    expect(await refusal(admin.call(contract.revokeKey, { body: { id: made.id } }))).toBe(
      'key.role_exceeds_own',
    );
  });

  it('cannot be revoked if it does not exist', async () => {
    const owner = await api.client();
    expect(await refusal(owner.call(contract.revokeKey, { body: { id: 'key_0' } }))).toBe(
      'key.not_found',
    );
  });

  it('is accepted without a checksum if it was supplied for development', async () => {
    expect((await listWith('apk_dev_owner')).status).toBe(200);
    expect((await listWith('apk_dev_other')).status).toBe(401);
  });

  it('stores the approximate time of its last use', async () => {
    const key = await api.key({ tenantId: 'used' });
    await listWith(key);
    await expect
      .poll(() => services.db.apiKey.findFirst({ where: { tenantId: 'used' } }))
      .toMatchObject({ lastUsedAt: new Date(services.clock.now()) });
  });
});

describe('rotating a signing key', () => {
  it('retires the active key, keeps the retired key for verification, and is recorded in the ledger', async () => {
    const owner = await api.client({ tenantId: 'rotating' });
    const before = await services.signingKeys.active('rotating', 'report');
    const rotated = await owner.call(contract.rotateSigningKey);
    expect(rotated).toMatchObject({ purpose: 'report', alg: 'ES256', retired_key_id: before.kid });
    const after = await services.signingKeys.active('rotating', 'report');
    expect(after.kid).toBe(rotated.active_key_id);
    const kids = (await services.signingKeys.publicKeys('rotating', 'report')).map(
      ({ kid }) => kid,
    );
    expect(kids).toEqual([after.kid, before.kid]);
    expect((await events('signing_key.rotated', 'rotating'))[0]?.data).toMatchObject({
      active_key_id: after.kid,
    });
  });

  it('leaves one active key and loses no key if many rotations run concurrently', async () => {
    const owner = await api.client({ tenantId: 'racing' });
    const answers = await Promise.all(
      Array.from({ length: 6 }, () => owner.call(contract.rotateSigningKey, { body: {} })),
    );
    const where = { tenantId: 'racing', purpose: 'report' };
    const keys = await services.db.signingKey.findMany({ where });
    expect(keys.filter(({ state }) => state === 'active')).toHaveLength(1);
    expect(new Set(answers.map((answer) => answer.active_key_id)).size).toBe(6);
    expect(keys).toHaveLength(7);
  });

  it('publishes new passport keys to the sidecars', async () => {
    const owner = await api.client({ tenantId: 'passports' });
    await owner.call(contract.rotateSigningKey, { body: { purpose: 'passport' } });
    expect(moved).toContain('passports keys');
  });

  it('of purpose sync signs and publishes every section again, including the sections of sidecars', async () => {
    const owner = await api.client({ tenantId: 'sections' });
    const jwk = { ...generateSigningKey().publicJwk };
    await services.db.sidecar.create({
      data: {
        id: 'sc_rotated',
        tenantId: 'sections',
        agentId: '1',
        userId: 'ann',
        environment: 'prod',
        signingJwk: jwk,
        encryptionJwk: jwk,
      },
    });
    await owner.call(contract.rotateSigningKey, { body: { purpose: 'sync' } });
    for (const name of [...tenantSections, 'sidecar:sc_rotated']) {
      expect(moved).toContain(`sections ${name}`);
    }
  });
});
