import { afterAll, describe, expect, it } from 'vitest';
import {
  credentialForCall,
  credentialsOfAgent,
} from '../../../control-plane/credentials/held-credentials.ts';
import { credentialRoutes } from '../../../control-plane/credentials/routes.ts';
import {
  credentialsVersion,
  tenantCredentialsVersion,
} from '../../../control-plane/sidecars/credentials-version.ts';
import { eventsOf } from '../../support/control-plane/services.ts';
import { startWatchedApi } from '../../support/control-plane/watched-api.ts';

const secret = 'sk_live_hunter2';
const { services, api, moved, close } = await startWatchedApi(credentialRoutes);
afterAll(close);

const body = (more: object = {}) => ({
  name: 'payments',
  secret,
  inject: { in: 'bearer' },
  bind: { tools: ['payments.*'], hosts: ['api.payments.example'] },
  ...more,
});
const store = async (tenantId: string, wanted: object) =>
  api.send('POST', '/api/v1/credentials', { key: await api.key({ tenantId }), body: wanted });

describe('a stored credential', () => {
  it('never exposes its secret in responses, lists, the database or the ledger', async () => {
    const stored = await store('t1', body());
    expect(stored.status).toBe(200);
    expect(stored.body).toMatchObject({ name: 'payments', version: 1, inject: { in: 'bearer' } });
    const listed = await api.send('GET', '/api/v1/credentials', {
      key: await api.key({ tenantId: 't1' }),
    });
    const rows = await services.db.credential.findMany({ where: { tenantId: 't1' } });
    const events = await eventsOf(services, 't1');
    expect(events.map(({ type }) => type)).toEqual(['credential.stored']);
    for (const text of [stored.text, listed.text, JSON.stringify(rows), JSON.stringify(events)]) {
      expect(text).not.toContain('hunter2');
    }
  });

  it('is added only to the calls that it is bound to', async () => {
    await store(
      't2',
      body({ bind: { tools: ['payments.*'], hosts: ['API.Payments.Example:443'] } }),
    );
    const ask = (tool: string, host: string, tenantId = 't2') =>
      credentialForCall(services, tenantId, { tool, host });
    expect(await ask('payments.refund', 'api.payments.example')).toMatchObject({ secret });
    expect(await ask('payments.refund.all', 'api.payments.example')).toBeUndefined();
    expect(await ask('crm.read', 'api.payments.example')).toBeUndefined();
    expect(await ask('payments.refund', 'api.payments.example:8443')).toBeUndefined();
    expect(await ask('payments.refund', 'evil.example')).toBeUndefined();
    expect(await ask('payments.refund', 'api.payments.example', 't1-other')).toBeUndefined();
  });

  it('gets a new version when it is stored again under its name, and the old secret is deleted', async () => {
    const first = await store('t3', body());
    const second = await store('t3', body({ secret: 'sk_new' }));
    expect(second.body).toMatchObject({ id: first.body?.id, version: 2 });
    const call = { tool: 'payments.refund', host: 'api.payments.example' };
    expect(await credentialForCall(services, 't3', call)).toMatchObject({
      secret: 'sk_new',
      version: 2,
    });
    expect(await services.db.credential.count({ where: { tenantId: 't3' } })).toBe(1);
  });

  it('gets a separate version for each of many concurrent writes', async () => {
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, index) => store('race', body({ secret: `s${index}` }))),
    );
    expect(answers.map((answer) => answer.body?.version).sort()).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    const row = await services.db.credential.findFirstOrThrow({ where: { tenantId: 'race' } });
    expect(row.version).toBe(8);
    const call = { tool: 'payments.refund', host: 'api.payments.example' };
    expect((await credentialForCall(services, 'race', call))?.secret).toMatch(/^s\d$/);
  });

  it('is sent only to the hosts that it was stored for, even if its row was changed in the database', async () => {
    await store('t4', body());
    await services.db.credential.updateMany({
      where: { tenantId: 't4' },
      data: { hosts: ['evil.example'], tools: ['*'] },
    });
    const evil = { tool: 'payments.refund', host: 'evil.example' };
    expect(await credentialForCall(services, 't4', evil)).toBeUndefined();
    await services.db.credential.updateMany({ where: { tenantId: 't4' }, data: { version: 9 } });
    await expect(credentialForCall(services, 't4', evil)).rejects.toMatchObject({
      code: 'credential.unreadable',
    });
  });

  it('is published to the sidecars whose agents may call its tools, and its version is in the heartbeat', async () => {
    const agent = async (name: string, capabilities: string[]) => {
      const { id } = await services.db.agent.create({
        data: { tenantId: 't5', name, capabilities },
      });
      await services.db.sidecar.create({
        data: {
          id: `sc_${name}`,
          tenantId: 't5',
          agentId: String(id),
          userId: 'u',
          environment: 'prod',
          signingJwk: {},
          encryptionJwk: {},
          revokedAt: name === 'gone' ? new Date() : null,
        },
      });
      return String(id);
    };
    const payer = await agent('payer', ['payments.refund']);
    const broad = await agent('broad', ['*']);
    const reader = await agent('reader', ['crm.read']);
    await agent('gone', ['payments.refund']);
    await store('t5', body());
    expect(moved.filter((section) => section.startsWith('t5 ')).sort()).toEqual([
      't5 sidecar:sc_broad',
      't5 sidecar:sc_payer',
      't5 tenant',
    ]);
    expect(await credentialsOfAgent(services, 't5', payer)).toHaveLength(1);
    expect(await credentialsOfAgent(services, 't5', broad)).toHaveLength(1);
    expect(await credentialsOfAgent(services, 't5', reader)).toEqual([]);
    expect(await credentialsOfAgent(services, 't5', 'none')).toEqual([]);
    expect(await credentialsOfAgent(services, 't1', payer)).toEqual([]);
  });

  it('changes the section of a sidecar that no longer gets it after its bound tools changed', async () => {
    const { id } = await services.db.agent.create({
      data: { tenantId: 't6', name: 'payer', capabilities: ['payments.refund'] },
    });
    await services.db.sidecar.create({
      data: {
        id: 'sc_6',
        tenantId: 't6',
        agentId: String(id),
        userId: 'u',
        environment: 'prod',
        signingJwk: {},
        encryptionJwk: {},
      },
    });
    await store('t6', body());
    await store('t6', body({ bind: { tools: ['crm.*'], hosts: ['crm.example'] } }));
    expect(moved.filter((section) => section === 't6 sidecar:sc_6')).toHaveLength(2);
  });
});

describe('removing a credential', () => {
  const remove = async (tenantId: string, id: unknown, role: 'owner' | 'developer' = 'owner') =>
    api.send('DELETE', `/api/v1/credentials/${id}`, { key: await api.key({ tenantId, role }) });
  const call = { tool: 'payments.refund', host: 'api.payments.example' };

  it('deletes the credential and its secret, and is recorded; the credential is no longer added to calls', async () => {
    const { body: stored } = await store('r1', body());
    const removed = await remove('r1', stored?.id);
    expect([removed.status, removed.body]).toEqual([
      200,
      expect.objectContaining({ id: stored?.id, name: 'payments', version: 1 }),
    ]);
    expect(removed.text).not.toContain('hunter2');
    expect(await services.db.credential.count({ where: { tenantId: 'r1' } })).toBe(0);
    expect(await credentialForCall(services, 'r1', call)).toBeUndefined();
    const events = await eventsOf(services, 'r1');
    expect(events.at(-1)).toMatchObject({
      type: 'credential.removed',
      chain_id: 'credentials:payments',
      data: { credential_id: stored?.id, name: 'payments', version: 1 },
    });
  });

  it('returns 404 for a credential that is already removed, belongs to another tenant or does not exist', async () => {
    const { body: stored } = await store('r2', body());
    const answers = [await remove('r1', stored?.id), await remove('r2', 'cred_none')];
    await remove('r2', stored?.id);
    answers.push(await remove('r2', stored?.id));
    for (const answer of answers) {
      expect([answer.status, answer.body?.reason_code]).toEqual([404, 'credential.not_found']);
    }
    const events = await eventsOf(services, 'r2');
    expect(events.filter(({ type }) => type === 'credential.removed')).toHaveLength(1);
  });

  it('requires the permission to store credentials', async () => {
    const { body: stored } = await store('r3', body());
    expect((await remove('r3', stored?.id, 'developer')).status).toBe(403);
    expect(await services.db.credential.count({ where: { tenantId: 'r3' } })).toBe(1);
  });

  it('frees the name for a new credential, which gets a new id and version 1', async () => {
    const { body: first } = await store('r4', body());
    await store('r4', body());
    await remove('r4', first?.id);
    const { body: second } = await store('r4', body({ secret: 'sk_new' }));
    expect(second).toMatchObject({ name: 'payments', version: 1 });
    expect(second?.id).not.toBe(first?.id);
    expect(await credentialForCall(services, 'r4', call)).toMatchObject({ secret: 'sk_new' });
  });

  it('makes calls use the matching credential that is next in the order of names', async () => {
    const { body: first } = await store('r5', body());
    await store('r5', body({ name: 'payments-2', secret: 'sk_next' }));
    await remove('r5', first?.id);
    expect(await credentialForCall(services, 'r5', call)).toMatchObject({ secret: 'sk_next' });
  });

  it('publishes a new credentials version, without the credential, to the sidecars that stored it', async () => {
    const { id } = await services.db.agent.create({
      data: { tenantId: 'r6', name: 'payer', capabilities: ['payments.refund'] },
    });
    const agentId = String(id);
    await services.db.sidecar.create({
      data: {
        id: 'sc_r6',
        tenantId: 'r6',
        agentId,
        userId: 'u',
        environment: 'prod',
        signingJwk: {},
        encryptionJwk: {},
      },
    });
    const { body: stored } = await store('r6', body());
    const [before, movedBefore] = [
      await credentialsVersion(services.db, 'r6', agentId),
      moved.length,
    ];
    await remove('r6', stored?.id);
    expect(moved.slice(movedBefore).toSorted()).toEqual(['r6 sidecar:sc_r6', 'r6 tenant']);
    expect(await credentialsVersion(services.db, 'r6', agentId)).not.toBe(before);
    expect(await credentialsOfAgent(services, 'r6', agentId)).toEqual([]);
  });

  it('never reuses a credentials version that sidecars already have, whichever credential is stored next', async () => {
    const { body: old } = await store('r7', body({ name: 'old' }));
    for (let count = 0; count < 4; count++) await store('r7', body({ name: 'old' }));
    await store('r7', body({ name: 'kept' }));
    const { updatedAt } = await services.db.credential.findFirstOrThrow({
      where: { tenantId: 'r7', name: 'kept' },
    });
    const before = await tenantCredentialsVersion(services.db, 'r7');
    await remove('r7', old?.id);
    for (let laterMs = 0; laterMs < 10; laterMs++) {
      await store('r7', body({ name: 'next' }));
      await services.db.credential.updateMany({
        where: { tenantId: 'r7', name: 'next' },
        data: { version: 1, updatedAt: new Date(updatedAt.getTime() + laterMs) },
      });
      expect(await tenantCredentialsVersion(services.db, 'r7')).not.toBe(before);
    }
  });
});

describe('a malformed credential', () => {
  it.each<[string, object]>([
    ['a secret with a line break', body({ secret: 'a\r\nx: y' })],
    ['a secret with surrounding spaces', body({ secret: ' a' })],
    ['a secret with characters that a header cannot contain', body({ secret: 'schlüssel' })],
    ['a header without a name', body({ inject: { in: 'header' } })],
    ['a header for message framing', body({ inject: { in: 'header', name: 'Content-Length' } })],
    [
      'a header that the proxy sets',
      body({ inject: { in: 'header', name: 'Proxy-Authorization' } }),
    ],
    ['a bearer with a header name', body({ inject: { in: 'bearer', name: 'x' } })],
    ['a parameter without a name', body({ inject: { in: 'query' } })],
    ['a format without the secret', body({ inject: { in: 'bearer', format: 'Token' } })],
    [
      'a format with the secret twice',
      body({ inject: { in: 'bearer', format: '{secret}{secret}' } }),
    ],
    ['a user name after the secret', body({ inject: { in: 'basic', format: '{secret}:user' } })],
    ['a wildcard host', body({ bind: { tools: ['a'], hosts: ['*'] } })],
    ['a host with a path', body({ bind: { tools: ['a'], hosts: ['a.example/x'] } })],
    ['a tool that is not a glob', body({ bind: { tools: ['a b'], hosts: ['a.example'] } })],
  ])('is refused: %s', async (_what, wanted) => {
    const answer = await store('wrong', wanted);
    expect([answer.status, answer.body?.reason_code]).toEqual([400, 'credential.invalid']);
    expect(answer.text).not.toContain('hunter2');
    expect(await services.db.credential.count({ where: { tenantId: 'wrong' } })).toBe(0);
  });

  it.each<[string, object]>([
    ['is bound to no host', body({ bind: { tools: ['a'], hosts: [] } })],
    ['is bound to no tool', body({ bind: { tools: [], hosts: ['a.example'] } })],
    ['has no secret', body({ secret: '' })],
    ['has an unknown field', body({ secrte: 'x' })],
  ])('is refused if it %s', async (_what, wanted) => {
    const answer = await store('wrong', wanted);
    expect([answer.status, answer.body?.reason_code]).toEqual([400, 'args.schema_invalid']);
    expect(answer.text).not.toContain('hunter2');
  });
});

it.each([
  ['a header', { in: 'header', name: 'X-Api-Key' }],
  [
    'a header with a custom scheme',
    { in: 'header', name: 'Authorization', format: 'Token {secret}' },
  ],
  ['a password', { in: 'basic', format: 'user:{secret}' }],
  ['a query parameter', { in: 'query', name: 'api_key' }],
])('a secret can be sent as %s', async (what, inject) => {
  expect((await store('ways', body({ name: what.replaceAll(' ', '-'), inject }))).status).toBe(200);
});
