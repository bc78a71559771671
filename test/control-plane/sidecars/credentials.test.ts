import { afterAll, beforeAll, expect, it } from 'vitest';
import { storeCredential } from '../../../control-plane/credentials/store-credential.ts';
import type { Caller } from '../../../control-plane/platform/access/caller.ts';
import { getSidecarCredentials } from '../../../shared/contract/sidecars.ts';
import { enrolledSidecar } from '../../support/control-plane/enrolled-sidecar.ts';
import { type Gateway, refusalOf, startGateway } from '../../support/control-plane/gateway.ts';

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway();
  await store('default', 'payments', ['pay.*']);
  await store('default', 'mail', ['mail.send']);
  await store('other', 'foreign', ['**']);
});
afterAll(() => gateway.close());

async function store(tenantId: string, name: string, tools: string[]) {
  const caller: Caller = {
    kind: 'key',
    tenantId,
    principal: 'owner',
    role: 'owner',
    scope: 'tenant',
    permissions: new Set(['credential.write']),
    address: '127.0.0.1',
  };
  const bind = { tools, hosts: ['api.example'] };
  await storeCredential(gateway.services, caller, {
    name,
    secret: `secret of ${name}`,
    inject: { in: 'bearer' },
    bind,
  });
}

it('a sidecar gets only the credentials that are bound to tools of its agent', async () => {
  const agentId = await gateway.agent('payer', ['pay.refund']);
  const { controlPlane } = await enrolledSidecar(gateway, agentId);
  const { credentials } = await controlPlane.credentials();
  expect(credentials.map(({ secret }) => secret)).toEqual(['secret of payments']);
});

it('the version of the credentials changes when a credential or the agent’s capabilities change', async () => {
  const agentId = await gateway.agent('mover', ['pay.refund']);
  const { controlPlane } = await enrolledSidecar(gateway, agentId);
  const versions = [(await controlPlane.credentials()).version];
  await store('default', 'payments', ['pay.*']);
  versions.push((await controlPlane.credentials()).version);
  gateway.services.clock.advance(10);
  await gateway.agent('mover', ['pay.refund', 'mail.send']);
  const last = await controlPlane.credentials();
  versions.push(last.version);
  expect(new Set(versions).size).toBe(3);
  expect(last.credentials).toHaveLength(2);
});

it('the sidecar of a disabled agent gets no credentials', async () => {
  const agentId = await gateway.agent('gone', ['**']);
  const { controlPlane } = await enrolledSidecar(gateway, agentId);
  await gateway.services.db.agent.update({
    where: { id: Number(agentId) },
    data: { disabledAt: new Date() },
  });
  expect((await controlPlane.credentials()).credentials).toEqual([]);
});

it('a sidecar can fetch credentials, but an owner’s key cannot', async () => {
  const error = await refusalOf(gateway.owner.call(getSidecarCredentials));
  expect(error.code).toBe('auth.sidecar_required');
});

it.each([
  ['notes.*', 'payments.*', false],
  ['notes.**', 'payments.**', false],
  ['payments.*.read', 'payments.*', false],
  ['pay*', 'mail.*', false],
  ['payments.*', 'payments.refund.*', false],
  ['payments.*', '*.refund', true],
  ['mcp.crm.*', 'mcp.*.lookup', true],
  ['**', 'payments.*', true],
  ['*', 'payments.*', true],
])(
  'the capability %s gives access to a secret that is bound to the tool pattern %s: %s',
  async (capability, bound, expected) => {
    const name = `glob-${crypto.randomUUID()}`;
    await store('default', name, [bound]);
    const agentId = await gateway.agent(name, [capability]);
    const { controlPlane } = await enrolledSidecar(gateway, agentId);
    const { credentials } = await controlPlane.credentials();
    const secrets = credentials.map(({ secret }) => secret);
    expect(secrets.includes(`secret of ${name}`)).toBe(expected);
  },
);
