import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Services } from '../../../../control-plane/core/services.ts';
import { allRoutes } from '../../../../control-plane/routes.ts';
import type { AnyOperation, Permission } from '../../../../shared/contract/base/operation.ts';
import type { Role } from '../../../../shared/contract/keys.ts';
import { startApi, type TestApi } from '../../../support/control-plane/api.ts';
import { roomyLimits } from '../../../support/control-plane/gateway.ts';
import { type TestServices, testServices } from '../../../support/control-plane/services.ts';

/**
 * The permission that each operation needs; the first line that matches applies. An operation without a line
 * fails the suite, so its author must add one here.
 */
const needed: readonly (readonly [method: string, path: RegExp, permission: Permission])[] = [
  ['POST', /^\/v1\/actions\/(preflight|decision)$/, 'action.preflight'],
  ['POST', /^\/v1\/actions\/execute$/, 'action.execute'],
  ['POST', /^\/v1\/passports\/issue$/, 'passport.issue'],
  ['POST', /^\/v1\/passports\/verify$/, 'passport.verify'],
  ['POST', /^\/v1\/passports\/revoke$/, 'passport.revoke'],
  ['POST', /^\/v1\/approvals\/(expire|\{id\}\/decide)$/, 'approval.decide'],
  ['DELETE', /^\/v1\/approvals\/\{id\}\/grant$/, 'approval.decide'],
  ['POST', /^\/v1\/policies\/(replay|lint)$/, 'read'],
  ['POST', /^\/v1\/policies\/backtest$/, 'evidence.read'],
  ['POST', /^\/v1\/policies(\/\{id\}\/versions|\/install-pack)?$/, 'policy.write'],
  ['PUT', /^\/v1\/policies\/\{id\}$/, 'policy.write'],
  ['DELETE', /^\/v1\/policies\/\{id\}$/, 'policy.write'],
  ['POST', /^\/v1\/simulate$/, 'read'],
  ['POST', /^\/v1\/tools\/ingest$/, 'tool.write'],
  ['POST', /^\/v1\/tools\/diff$/, 'read'],
  ['POST', /^\/v1\/agents\/register$/, 'agent.write'],
  ['PATCH', /^\/v1\/agents\/\{id\}$/, 'agent.write'],
  ['POST', /^\/v1\/agents\/(issue-passport|renew|refresh-passport)$/, 'passport.issue'],
  ['POST', /^\/v1\/agents\/validate$/, 'passport.verify'],
  ['POST', /^\/v1\/agents\/service-accounts$/, 'key.write'],
  // Enrolment tokens and rules give access to the secrets that the agent's capabilities cover.
  ['POST', /^\/v1\/sidecars\/tokens$/, 'sidecar.enrol'],
  ['PUT', /^\/v1\/sidecars\/enrolment-rules\/\{name\}$/, 'sidecar.enrol'],
  ['DELETE', /^\/v1\/sidecars\/enrolment-rules\/\{name\}$/, 'sidecar.enrol'],
  ['DELETE', /^\/v1\/sidecars\/\{id\}$/, 'agent.write'],
  ['POST', /^\/v1\/evidence\/events$/, 'evidence.write'],
  ['GET', /^\/v1\/(evidence|audit)\/export$/, 'evidence.export'],
  ['GET', /^\/v1\/audit$/, 'evidence.read'],
  ['POST', /^\/v1\/evidence\/verify$/, 'evidence.read'],
  ['POST', /^\/v1\/evidence\/dead-letters\/retry$/, 'evidence.write'],
  ['POST', /^\/v1\/evidence\/verification\/accept-loss$/, 'settings.write'],
  ['GET', /^\/v1\/(evidence\/|compliance$)/, 'evidence.read'],
  // The erasure destroys evidence of a request, so only owners and admins may request it.
  ['DELETE', /^\/v1\/evidence\/events\/\{id\}\/arguments$/, 'settings.write'],
  ['POST', /^\/v1\/privacy\/erasures$/, 'settings.write'],
  ['PATCH', /^\/v1\/tenant\/settings$/, 'settings.write'],
  ['GET', /^\/v1\/tenant\/settings$/, 'read'],
  ['GET', /^\/v1\/policies\/\{id\}\/observed$/, 'evidence.read'],
  ['POST', /^\/v1\/credentials$/, 'credential.write'],
  ['DELETE', /^\/v1\/credentials\/\{id\}$/, 'credential.write'],
  ['POST', /^\/v1\/keys(\/signing\/rotate)?$/, 'key.write'],
  ['DELETE', /^\/v1\/keys$/, 'key.write'],
  ['POST', /^\/v1\/runtime\/kill-switches$/, 'runtime.write'],
  ['DELETE', /^\/v1\/runtime\/kill-switches\/\{id\}$/, 'runtime.write'],
  ['PUT', /^\/v1\/runtime\/bindings\/\{name\}$/, 'policy.publish'],
  ['DELETE', /^\/v1\/runtime\/bindings\/\{name\}$/, 'policy.publish'],
  ['PUT', /^\/v1\/users\/\{id\}$/, 'settings.write'],
  // This permission belongs to roles that may write settings, and to a scheduler's gateway key (contract
  // 4.7).
  ['POST', /^\/v1\/integrations\/deliveries\/drain$/, 'delivery.drain'],
  ['PUT', /^\/v1\/integrations\/webhook$/, 'settings.write'],
  ['DELETE', /^\/v1\/integrations\/webhook$/, 'settings.write'],
  [
    'GET',
    /^\/v1\/(policies|tools|agents|approvals|keys|credentials|users|sidecars|runtime|integrations)\b/,
    'read',
  ],
];

const reads = ['read', 'evidence.read', 'passport.verify'] as const;
const all = new Set([...needed.map(([, , permission]) => permission), ...reads]);

/** The permissions of each role, as design section 12 lists them. */
const grants: readonly (readonly [Role, 'bound' | 'unbound', ReadonlySet<string>])[] = [
  ['owner', 'unbound', all],
  ['admin', 'unbound', all],
  [
    'developer',
    'unbound',
    new Set([
      'policy.write',
      'tool.write',
      'agent.write',
      'passport.issue',
      'action.preflight',
      ...reads,
    ]),
  ],
  ['approver', 'unbound', new Set(['approval.decide', ...reads])],
  ['auditor', 'unbound', new Set(['evidence.export', ...reads])],
  ['agent', 'unbound', new Set(['action.preflight', 'passport.verify'])],
  ['agent', 'bound', new Set(['action.preflight', 'passport.verify', 'passport.issue'])],
  [
    'gateway',
    'unbound',
    new Set([
      'action.preflight',
      'action.execute',
      'evidence.write',
      'integration.itsm',
      'acl.sync',
      'delivery.drain',
    ]),
  ],
];

let services: TestServices;
let api: TestApi;
const keys = new Map<string, string>();
beforeAll(async () => {
  services = await testServices();
  await services.db.tenant.create({ data: { id: 'default', name: 'default' } });
  const { id: agentId } = await services.db.agent.create({
    data: { tenantId: 'default', name: 'bound', capabilities: [] },
  });
  api = await startApi(allRoutes(services), services, { limits: roomyLimits });
  for (const [role, binding] of grants) {
    const holder = { role, scope: 'gateway', ...(binding === 'bound' ? { agentId } : {}) } as const;
    keys.set(`${role} ${binding}`, await api.key(holder));
  }
});
afterAll(async () => {
  await api.close();
  await services.close();
});

// The routes only keep references to their services; none is called before the suite begins.
const operations = allRoutes({} as Services)
  .map(({ operation }) => operation)
  .filter(({ auth }) => auth === 'bearer' || auth === 'gateway');

function permissionFor({ method, path }: AnyOperation): Permission | undefined {
  return needed.find(([verb, form]) => verb === method && form.test(path))?.[2];
}

describe.each(
  operations.map((operation) => [`${operation.method} ${operation.path}`, operation] as const),
)('%s', (_place, operation) => {
  it('is permitted for exactly the roles that the design lists', async () => {
    const permission = permissionFor(operation);
    expect(operation.permission).toBe(permission);
    const path = `/api${operation.path.replaceAll(/\{\w+\}/g, '1')}`;
    for (const [role, binding, granted] of grants) {
      const key = keys.get(`${role} ${binding}`) ?? '';
      // The invalid query causes the refusal of authorised callers, too, so that nothing is executed.
      const answer = await api.send(operation.method, `${path}?stumble=1`, { key });
      const isGranted = granted.has(permission ?? '');
      expect([role, binding, answer.status, answer.body?.reason_code]).toEqual([
        role,
        binding,
        ...(isGranted ? [400, 'request.invalid'] : [403, 'auth.insufficient_permission']),
      ]);
    }
  });
});

it('binding a key to an agent adds permissions only for role agent', async () => {
  const { id: agentId } = await services.db.agent.create({
    data: { tenantId: 'default', name: 'second', capabilities: [] },
  });
  const key = await api.key({ role: 'auditor', scope: 'gateway', agentId });
  for (const path of ['/v1/passports/issue', '/v1/agents/issue-passport', '/v1/agents/renew']) {
    const answer = await api.send('POST', `/api${path}`, { key, body: {} });
    expect([answer.status, answer.body?.reason_code]).toEqual([
      403,
      'auth.insufficient_permission',
    ]);
  }
});
