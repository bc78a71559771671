import { actionRoutes } from '../../../control-plane/actions/routes.ts';
import { agentRoutes } from '../../../control-plane/agents/routes.ts';
import { approvalRoutes } from '../../../control-plane/approvals/routes.ts';
import { bindingRoutes } from '../../../control-plane/bindings/routes.ts';
import { complianceRoutes } from '../../../control-plane/compliance/routes.ts';
import type { Services } from '../../../control-plane/core/services.ts';
import { credentialRoutes } from '../../../control-plane/credentials/routes.ts';
import { evidenceRoutes } from '../../../control-plane/evidence/routes.ts';
import { killSwitchRoutes } from '../../../control-plane/kill-switches/routes.ts';
import { verifyStored } from '../../../control-plane/ledger/verification/verify-chain.ts';
import { notifyRoutes } from '../../../control-plane/notifications/routes.ts';
import { passportRoutes } from '../../../control-plane/passports/routes.ts';
import { policyRoutes } from '../../../control-plane/policies/routes.ts';
import { sidecarRoutes } from '../../../control-plane/sidecars/routes.ts';
import { tenantRoutes } from '../../../control-plane/tenants/routes.ts';
import { toolRoutes } from '../../../control-plane/tools/routes.ts';
import { trialRoutes } from '../../../control-plane/trials/routes.ts';
import { workloadRoutes } from '../../../control-plane/workloads/routes.ts';
import type { JsonObject } from '../../../shared/base/json.ts';
import { registerAgent } from '../../../shared/contract/agents.ts';
import type { Client } from '../../../shared/contract/base/client.ts';
import { createPolicy } from '../../../shared/contract/policies/policies.ts';
import { GatewayError } from '../../../shared/errors/gateway-error.ts';
import { type Answer, type KeyHolderOptions, startApi, type TestApi } from './api.ts';
import { type TestServices, type TestServicesOptions, testServices } from './services.ts';

export interface Gateway {
  readonly services: TestServices;
  readonly api: TestApi;
  /** A client with the tenant owner's key. */
  readonly owner: Client;
  /** Returns a client with a new key of this holder, in the default tenant. */
  as(holder: KeyHolderOptions): Promise<Client>;
  /** Sends a plain POST to a path below `/api`, with the given key or the owner's. */
  post(path: string, body: unknown, key?: string): Promise<Answer>;
  /** Registers an agent; returns its id in the form that actions contain. */
  agent(name?: string, capabilities?: readonly string[]): Promise<string>;
  /** Publishes a policy with these rules. */
  publish(...rules: readonly JsonObject[]): Promise<string>;
  /** Verifies that all ledgers are intact, then closes. */
  close(): Promise<void>;
}

const tenantIds = ['default', 'other'] as const;

/** Serves most of the control plane's API over real HTTP, on a real database with two tenants. */
export async function startGateway(options: TestServicesOptions = {}): Promise<Gateway> {
  const services = await testServices(options);
  for (const id of tenantIds) {
    await services.db.tenant.upsert({ where: { id }, update: {}, create: { id, name: id } });
  }
  const api = await startApi(routesOf(services), services, { limits: roomyLimits });
  const ownerKey = await api.key();
  const owner = await api.client(ownerKey);
  let policies = 0;
  return {
    services,
    api,
    owner,
    as: (holder) => api.client(holder),
    post: (path, body, key = ownerKey) => api.send('POST', `/api${path}`, { key, body }),
    agent: async (name = 'bot', capabilities = ['**']) => {
      const body = { name, capabilities: [...capabilities] };
      const { agent_id } = await owner.call(registerAgent, { body });
      return String(agent_id);
    },
    publish: async (...rules) => {
      policies += 1;
      const rules_json = { id: `p${policies}`, version: 1, rules };
      const body = { name: `policy ${policies}`, rules_json, publish: true };
      return (await owner.call(createPolicy, { body })).policy_hash;
    },
    close: async () => {
      await api.close();
      await assertLedgersWhole(services);
      await services.close();
    },
  };
}

/** Verifies the ledgers, because no test may leave a damaged one. */
async function assertLedgersWhole(services: TestServices): Promise<void> {
  for (const id of tenantIds) {
    const report = await verifyStored(services, id);
    if (!report.ok) throw new Error(`the ledger of ${id} is broken: ${JSON.stringify(report)}`);
  }
}

/** Request budgets that are too large for any test to exhaust. */
export const roomyLimits = {
  requestsPerMinute: { tenant: 100_000, control: 100_000, sidecar: 100_000, address: 100_000 },
};

/** Returns the routes of most resources. The routes of keys and users are missing. */
export function routesOf(services: Services) {
  return [
    ...actionRoutes(services),
    ...passportRoutes(services),
    ...approvalRoutes(services),
    ...policyRoutes(services),
    ...trialRoutes(services),
    ...tenantRoutes(services),
    ...toolRoutes(services),
    ...bindingRoutes(services),
    ...killSwitchRoutes(services),
    ...credentialRoutes(services),
    ...agentRoutes(services),
    ...sidecarRoutes(services),
    ...workloadRoutes(services),
    ...notifyRoutes(services),
    ...evidenceRoutes(services),
    ...complianceRoutes(services),
  ];
}

/** Returns a rule that matches the calls of a tool, or all calls if no tool is given. */
export function rule(decision: string, tool?: string, more: JsonObject = {}): JsonObject {
  const condition =
    tool === undefined
      ? { path: 'tool.name', operator: '!=', value: '' }
      : { path: 'tool.name', operator: '==', value: tool };
  const name = `${decision} ${tool ?? 'all'}`;
  return { name, decision, reason: `test.${decision}`, when: { all: [condition] }, ...more };
}

/** Returns the error with which a call was refused. Fails if the call was not refused. */
export async function refusalOf(call: Promise<unknown>): Promise<GatewayError> {
  try {
    await call;
  } catch (error) {
    if (error instanceof GatewayError) return error;
    throw error;
  }
  throw new Error('the call was not refused');
}
