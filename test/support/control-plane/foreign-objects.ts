import type { Services } from '../../../control-plane/core/services.ts';
import { newEvent } from '../../../control-plane/ledger/sealing/new-event.ts';
import { newId } from '../../../shared/base/ids.ts';
import type { AccessHarness } from './access-suite.ts';
import type { TestApi } from './api.ts';

let made = 0;

/**
 * Creates one object of each collection in a tenant, directly in the database. Add every new
 * collection whose objects an operation addresses.
 */
export function foreignObjects(
  { db, clock, ledger }: Services,
  api: TestApi,
): AccessHarness['objects'] {
  const name = () => `foreign-${++made}`;
  const agent = async (tenantId: string) => {
    const { id } = await db.agent.create({ data: { tenantId, name: name(), capabilities: ['*'] } });
    return id;
  };
  return {
    '/v1/agents': agent,
    '/v1/keys': async (tenantId) => {
      const key = await api.key({ tenantId });
      const row = await db.apiKey.findFirstOrThrow({
        where: { tenantId, start: key.slice(0, 8), last4: key.slice(-4) },
      });
      return row.id;
    },
    '/v1/users': async (tenantId) => {
      const { id } = await db.directoryUser.create({ data: { tenantId, id: name() } });
      return id;
    },
    '/v1/tools': async (tenantId) => {
      const tool = { tenantId, name: name() };
      const hash = `sha256:${'0'.repeat(64)}`;
      const manifest = JSON.stringify({ name: tool.name });
      await db.toolVersion.create({
        data: { ...tool, hash, surfaceHash: hash, manifest, ingestedBy: 'test' },
      });
      await db.tool.create({
        data: { ...tool, manifestHash: hash, approvalStatus: 'approved', riskTier: 'low' },
      });
      return tool.name;
    },
    '/v1/runtime/bindings': async (tenantId) => {
      const binding = { name: name(), protocol: 'passthrough', host: 'foreign.example' };
      await db.binding.create({
        data: { tenantId, ...binding, definition: binding, updatedBy: 'test' },
      });
      return binding.name;
    },
    '/v1/credentials': async (tenantId) => {
      const id = newId('cred', clock.now());
      const fields = { tools: ['*'], hosts: ['foreign.example'], inject: { in: 'bearer' } };
      await db.credential.create({
        data: { id, tenantId, name: name(), ...fields, sealed: '{}', createdBy: 'test' },
      });
      return id;
    },
    '/v1/runtime/kill-switches': async (tenantId) => {
      const id = newId('ks', clock.now());
      await db.killSwitch.create({
        data: { id, tenantId, kind: 'block_tool', tool: 't', reason: 'r', armedBy: 'test' },
      });
      return id;
    },
    '/v1/sidecars': async (tenantId) => {
      const id = newId('sc', clock.now());
      await db.sidecar.create({
        data: {
          id,
          tenantId,
          agentId: String(await agent(tenantId)),
          userId: 'user_1',
          environment: 'prod',
          signingJwk: {},
          encryptionJwk: {},
        },
      });
      return id;
    },
    '/v1/sidecars/enrolment-rules': async (tenantId) => {
      const rule = {
        name: name(),
        issuer: 'https://issuer.example',
        audience: 'sallyport',
        namespace: 'foreign',
        agentId: String(await agent(tenantId)),
        userId: 'user_1',
        environment: 'prod',
      };
      const written = { writtenBy: 'test', writerRole: 'owner', eventId: newId('ev', clock.now()) };
      const data = { tenantId, ...rule, serviceAccount: rule.name, ...written };
      await db.enrolmentRule.create({ data: { ...data, writtenAt: new Date(clock.now()) } });
      return rule.name;
    },
    '/v1/policies': async (tenantId) => {
      const definition = { id: name(), version: 1, rules: [] };
      const { id } = await db.policy.create({
        data: {
          tenantId,
          name: definition.id,
          definitionId: definition.id,
          version: 1,
          definition: JSON.stringify(definition),
          policyHash: `sha256:${'0'.repeat(64)}`,
          createdBy: 'test',
        },
      });
      return id;
    },
    '/v1/evidence/events': async (tenantId) => {
      const event = newEvent({ type: 'decision', chainId: 'agent:1', data: {} }, clock);
      await ledger.seal(tenantId, event);
      return event.id;
    },
    '/v1/approvals': async (tenantId) => {
      const { id } = await db.approval.create({
        data: {
          tenantId,
          agentId: String(await agent(tenantId)),
          userId: 'user_1',
          tool: 'payments.refund',
          resource: 'payment:1',
          riskTier: 'low',
          reasonCode: 'refund.large',
          summary: 'A refund',
          chainId: 'agent:1',
          actionDigest: `sha256:${'0'.repeat(64)}`,
          channels: [],
          expiresAt: new Date(clock.now() + 3_600_000),
        },
      });
      return id;
    },
  };
}
