import type { KeyPurpose } from '../../../control-plane/platform/signing-keys/signing-keys.ts';
import type { JsonObject } from '../../../shared/base/json.ts';
import { openBus } from '../../../shared/bus/open.ts';
import type { AnyOperation } from '../../../shared/contract/base/operation.ts';
import { generateSigningKey } from '../../../shared/crypto/signing-key.ts';
import { buildClaims, signPassport } from '../../../shared/passport/issue.ts';
import { type Answer, startApi, type TestApi } from '../../support/control-plane/api.ts';
import {
  type DatabaseFaults,
  databaseFaults,
} from '../../support/control-plane/database-faults.ts';
import { type Gateway, roomyLimits, routesOf, rule } from '../../support/control-plane/gateway.ts';
import { executeStage } from '../actions/execute-stage.ts';

export interface Given {
  readonly params?: Readonly<Record<string, string | number>>;
  /** The query string, with the question mark. */
  readonly query?: string;
  readonly body?: unknown;
  /** `none` sends no key. The default is the owner's key, which has gateway scope. */
  readonly key?: string;
  readonly api?: TestApi;
}

export type Stage = Awaited<ReturnType<typeof statusStage>>;

let made = 0;
export const fresh = (word: string) => `${word}-${++made}`;

/**
 * A gateway on which every status of the contract can be caused: tools for each kind of decision,
 * tenants at the limit of their plan and of their budget, database faults.
 */
export async function statusStage() {
  const execute = await executeStage();
  const { gateway, services, agentId } = execute;
  await gateway.publish(
    rule('require_approval', 'two', { approval: { quorum: 2 } }),
    rule('require_approval', 'boss', { approval: { min_role: 'admin' } }),
    rule('require_approval', 'brief', { approval: { grant: { max_uses: 1 } } }),
  );
  const tight = await startApi(routesOf(services), services, {
    limits: { requestsPerMinute: { tenant: 1, control: 1, sidecar: 1, address: 1 } },
  });
  const faults = databaseFaults(services);
  const requests = await requestsTo(gateway);
  const action = (more: JsonObject = {}) => ({ ...execute.action(), mode: 'enforce', ...more });
  const forgetting = forgetfulApis(gateway);
  return {
    services,
    agentId,
    tight,
    faults,
    action,
    ...requests,
    ...agentsOf(gateway, requests),
    ...passportsOf(gateway, requests, agentId),
    sealSigningKeyElsewhere: (purpose?: KeyPurpose) =>
      sealSigningKeyElsewhere(gateway, faults, purpose),
    ...approvalsOf(requests, action),
    ...policiesOf(gateway, requests, faults),
    forgetful: forgetting.start,
    close: async () => {
      await forgetting.close();
      await tight.close();
      await execute.close();
    },
  };
}

type Requests = Awaited<ReturnType<typeof requestsTo>>;

async function requestsTo({ api, services }: Gateway) {
  const owner = await api.key({ scope: 'gateway' });
  const send = (operation: Pick<AnyOperation, 'method' | 'path'>, given: Given = {}) => {
    const { params = {}, query = '', body, key = owner, api: at = api } = given;
    const path = operation.path.replaceAll(/\{(\w+)\}/g, (_match, name: string) =>
      encodeURIComponent(String(params[name] ?? 1)),
    );
    return at.send(operation.method, `/api${path}${query}`, {
      ...(key === 'none' ? {} : { key }),
      ...(body === undefined ? {} : { body }),
    });
  };
  return {
    key: api.key,
    /** The key of an approver. */
    anna: await api.key({ role: 'approver', principal: 'anna' }),
    send,
    post: (path: string, body: unknown, key = owner) =>
      send({ method: 'POST', path: `/v1${path}` }, { body, key }),
    /** Creates a tenant; returns its id and its owner's key. */
    tenant: async (plan = 'enterprise') => {
      const id = fresh('tenant');
      await services.db.tenant.create({ data: { id, name: id, plan } });
      return { id, key: await api.key({ tenantId: id, scope: 'gateway' }) };
    },
  };
}

/** Returns a field of the response, and throws if the response does not contain it. */
async function fieldOf(asking: Promise<Answer>, field: string): Promise<unknown> {
  const { body, text } = await asking;
  if (body?.[field] === undefined) throw new Error(`no ${field} in ${text}`);
  return body[field];
}

function agentsOf({ api, agent }: Gateway, { send }: Requests) {
  return {
    /** Creates a key with the owner's rights that is bound to another agent. */
    otherAgentsKey: async () =>
      api.key({ scope: 'gateway', agentId: Number(await agent(fresh('other'))) }),
    disabledAgent: async () => {
      const id = Number(await agent(fresh('disabled')));
      await send({ method: 'PATCH', path: `/v1/agents/${id}` }, { body: { disabled: true } });
      return id;
    },
  };
}

function passportsOf({ services }: Gateway, { post }: Requests, agentId: string) {
  return {
    passportBody: (more: JsonObject = {}) => ({
      tenant_id: 'default',
      agent_id: agentId,
      user_id: 'user-1',
      goal: '',
      allowed_tools: ['**'],
      risk_tier: 'low',
      policy_id: 'p',
      approval_hash: null,
      audience: 'gateway://agents',
      ttl_seconds: 300,
      ...more,
    }),
    /**
     * Signs a passport that was never issued, with any terms. A forged one is signed with an unrelated key.
     */
    signed: async (more: object = {}, forged = false) => {
      const claims = buildClaims({
        issuer: 'sallyport',
        agentId,
        audience: 'gateway://agents',
        tenantId: 'default',
        userId: '*',
        goal: '',
        allowedTools: ['**'],
        riskTier: 'low',
        policyId: 'p',
        policyHash: '',
        ttlSeconds: 300,
        nowMs: services.clock.now(),
        ...more,
      });
      const known = await services.signingKeys.active(claims.tenant_id, 'passport');
      return signPassport(claims, forged ? generateSigningKey('EdDSA') : known);
    },
    issue: async (more: JsonObject = {}) => {
      const body = { agent_id: Number(agentId), requested_tools: ['pay', 'brief'], ...more };
      return String(await fieldOf(post('/agents/issue-passport', body), 'token'));
    },
  };
}

/**
 * Copies the sealed secret of the active signing key to a new row, where it cannot be opened, and activates
 * this row until the faults are repaired.
 */
async function sealSigningKeyElsewhere(
  { services }: Gateway,
  faults: DatabaseFaults,
  purpose: KeyPurpose = 'passport',
) {
  const { db, clock, signingKeys } = services;
  await signingKeys.active('default', purpose);
  const active = { tenantId: 'default', purpose, state: 'active' };
  const { kid, alg, publicJwk, sealed, mac } = await db.signingKey.findFirstOrThrow({
    where: active,
  });
  await db.signingKey.updateMany({ where: active, data: { state: 'retired' } });
  const other = fresh('kid');
  await db.signingKey.create({
    data: { ...active, kid: other, alg, publicJwk: publicJwk ?? {}, sealed },
  });
  faults.onMend(`update signing_key set state = 'active', mac = '${mac}' where kid = '${kid}'`);
  faults.onMend(`delete from signing_key where kid = '${other}'`);
  // The active signing key is cached for a second.
  clock.advance(1_000);
}

function approvalsOf(
  { post, anna }: Requests,
  action: (more: JsonObject) => Record<string, unknown>,
) {
  return {
    /** Requests an action on this tool, which needs an approval; returns the id of the approval. */
    approval: async (tool: string, more: JsonObject = {}) => {
      const asking = post('/actions/preflight', action({ tool, resource: fresh('r'), ...more }));
      return Number(await fieldOf(asking, 'approval_request_id'));
    },
    decide: (id: number, body: object) => post(`/approvals/${id}/decide`, body, anna),
  };
}

function policiesOf({ services }: Gateway, { post }: Requests, faults: DatabaseFaults) {
  return {
    definition: (more: JsonObject = {}) => ({
      id: fresh('p'),
      version: 1,
      rules: [rule('deny', 'nobodys.tool')],
      ...more,
    }),
    /** Stores a policy; returns its id. */
    policy: async (rules_json: JsonObject, { publish = false, key }: PolicyOptions = {}) => {
      const body = { name: fresh('policy'), rules_json, publish };
      return Number(await fieldOf(post('/policies', body, key), 'id'));
    },
    /** Stores a published policy that differs from its hash, until the faults are repaired. */
    changePublishedPolicy: async () => {
      const name = fresh('changed');
      const definition = JSON.stringify({ id: name, version: 1, rules: [] });
      const { id } = await services.db.policy.create({
        data: {
          tenantId: 'default',
          name,
          definitionId: name,
          version: 1,
          definition,
          lifecycle: 'published',
          policyHash: `sha256:${'0'.repeat(64)}`,
          createdBy: 'x',
        },
      });
      faults.onMend(`delete from policy where id = ${id}`);
    },
  };
}

interface PolicyOptions {
  readonly publish?: boolean;
  /** Default: the owner's key. */
  readonly key?: string | undefined;
}

/**
 * Control planes whose bus has just lost its data, so they cannot know which passports were used.
 */
function forgetfulApis({ services }: Gateway) {
  const opened: { readonly close: () => Promise<void> }[] = [];
  return {
    start: async () => {
      services.clock.advance(1_000);
      const bus = await openBus({ ...services, redisUrl: undefined });
      const forgetting = { ...services, bus };
      const api = await startApi(routesOf(forgetting), forgetting, { limits: roomyLimits });
      opened.push(api, bus);
      return api;
    },
    close: async () => {
      for (const each of opened) await each.close();
    },
  };
}
