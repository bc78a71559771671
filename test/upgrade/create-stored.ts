import { request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import type { Embedded } from '../../cli/embedded/start-embedded.ts';
import { upstreamHost } from './upstream-address.ts';

type Answer = Readonly<Record<string, unknown>>;
type Api = (method: string, path: string, body?: unknown, key?: string) => Promise<Answer>;

/** Facts about a data directory that a test cannot read from the directory itself. */
export type Stored = Awaited<ReturnType<typeof createStored>>;

/** Fills a new installation through its API and its proxy with every kind of stored data. */
export async function createStored(embedded: Embedded) {
  const api = apiOf(embedded);
  const made = { madeAt: new Date().toISOString(), secret: 'sk_live_stored_by_an_older_version' };
  const agents = await createAgents(api);
  const keys = await createKeys(api);
  await createSettings(api, made.secret);
  const policies = await createPolicies(api);
  const approvals = await createApprovals(api, { ...agents, ...keys });
  const passports = await createPassports(api, agents.agentId);
  const kept = await createExecutions(api, agents.agentId);
  const killSwitches = await createKillSwitches(api);
  const sidecarAgentId = embedded.sidecar.identity.agentId;
  await callThroughSidecar(embedded, api);
  return {
    ...made,
    ...agents,
    ...keys,
    ...policies,
    ...approvals,
    ...passports,
    ...kept,
    ...killSwitches,
    sidecarAgentId,
    removedBindings: ['removed-1', 'removed-2', 'removed-3'],
  };
}

export function apiOf({ origin, ownerKey }: Pick<Embedded, 'origin' | 'ownerKey'>): Api {
  return async (method, path, body, key = ownerKey) => {
    const response = await fetch(`${origin}/api${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path} answered ${response.status}: ${text}`);
    return text === '' ? {} : (JSON.parse(text) as Answer);
  };
}

async function createAgents(api: Api) {
  const register = async (name: string, capabilities: readonly string[]) =>
    String((await api('POST', '/v1/agents/register', { name, capabilities })).agent_id);
  const agentId = await register('stored', ['**']);
  const disabledAgentId = await register('stored-disabled', ['notes.*']);
  await api('PATCH', `/v1/agents/${disabledAgentId}`, { disabled: true, reason: 'retired' });
  await api('POST', '/v1/agents/service-accounts', { agent_id: Number(agentId), name: 'nightly' });
  await api('PUT', '/v1/users/user-1', { email: 'user-1@example.com', role: 'clerk' });
  return { agentId, disabledAgentId };
}

async function createKeys(api: Api) {
  const create = (fields: object) => api('POST', '/v1/keys', { scope: 'tenant', ...fields });
  const key = async (fields: object) => String((await create(fields)).key);
  const approverKey = await key({ name: 'anna', role: 'approver', principal: 'anna' });
  const developerKey = await key({ name: 'dev', role: 'developer', principal: 'dev' });
  const revokedKey = await key({ name: 'revoked', role: 'auditor', principal: 'olaf' });
  const { keys } = (await api('GET', '/v1/keys')) as { keys: { id: string; name: string }[] };
  const id = keys.find(({ name }) => name === 'revoked')?.id;
  await api('DELETE', '/v1/keys', { id });
  return { approverKey, developerKey, revokedKey };
}

async function createSettings(api: Api, secret: string): Promise<void> {
  const bind = (name: string, fields: object) =>
    api('PUT', `/v1/runtime/bindings/${name}`, { protocol: 'http', ...fields });
  const url = `http://${upstreamHost}/v1/notes`;
  await bind('notes', {
    host: upstreamHost,
    method: 'POST',
    path: '/v1/notes',
    body: 'json',
    tool: 'notes.write',
    resource: 'note:{note_id}',
    upstream: { url, method: 'POST' },
  });
  await bind('mcp', { protocol: 'mcp', host: 'mcp.example', path: '/mcp' });
  await bind('model', { protocol: 'passthrough', host: 'model.example' });
  for (const name of ['removed-1', 'removed-2', 'removed-3']) {
    await bind(name, { protocol: 'passthrough', host: `${name}.example` });
    await api('DELETE', `/v1/runtime/bindings/${name}`);
  }
  await api('POST', '/v1/credentials', {
    name: 'notes',
    secret,
    inject: { in: 'bearer' },
    bind: { tools: ['notes.*'], hosts: [upstreamHost] },
  });
  const manifest = (version: string, description: string) => ({
    name: 'notes.write',
    version,
    description,
    riskTier: 'low',
    inputSchema: { type: 'object', properties: { note_id: { type: 'string' } } },
  });
  await api('POST', '/v1/tools/ingest', { manifest: manifest('1.0.0', 'Writes a note') });
  const webhook = { url: 'https://hooks.example/sallyport' };
  await api('PUT', '/v1/integrations/webhook', webhook);
}

const isTool = (value: string) => ({ all: [{ path: 'tool.name', operator: '==', value }] });

async function createPolicies(api: Api) {
  const write = async (id: string, rules: readonly object[], publish = true) =>
    Number(
      (
        await api('POST', '/v1/policies', {
          name: id,
          publish,
          rules_json: { id, version: 1, rules },
        })
      ).id,
    );
  const policyId = await write('stored', [
    { name: 'notes', decision: 'allow', reason: 'notes.allowed', when: isTool('notes.write') },
    { name: 'denied', decision: 'deny', reason: 'notes.denied', when: isTool('notes.delete') },
    {
      name: 'asked',
      decision: 'require_approval',
      reason: 'notes.asked',
      when: isTool('notes.share'),
      approval: { min_role: 'approver', sla_seconds: 86_400 },
    },
    {
      name: 'often',
      decision: 'require_approval',
      reason: 'notes.often',
      approval: { grant: { max_uses: 10, max_ttl_seconds: 86_400, scope: 'tool' } },
      when: isTool('notes.mail'),
    },
  ]);
  const draftPolicyId = await write('stored-draft', [], false);
  const archivedPolicyId = await write('stored-archived', []);
  await api('DELETE', `/v1/policies/${archivedPolicyId}`);
  return { policyId, draftPolicyId, archivedPolicyId };
}

interface Holders {
  readonly agentId: string;
  readonly approverKey: string;
  readonly developerKey: string;
}

async function createApprovals(api: Api, { agentId, approverKey, developerKey }: Holders) {
  const ask = async (tool: string, resource: string) => {
    const action = {
      agent_id: agentId,
      user_id: 'user-1',
      tool,
      resource,
      args: { note_id: 'n1' },
    };
    const answer = await api('POST', '/v1/actions/preflight', action, developerKey);
    return { id: Number(answer.approval_request_id), action };
  };
  const decide = (id: number, body: object) =>
    api('POST', `/v1/approvals/${id}/decide`, body, approverKey);
  const open = await ask('notes.share', 'note:open');
  const granted = await ask('notes.share', 'note:granted');
  const decided = await decide(granted.id, { action: 'approve', comment: 'fine' });
  const denied = await ask('notes.share', 'note:denied');
  await decide(denied.id, { action: 'deny', comment: 'no' });
  const standing = await ask('notes.mail', 'note:mail');
  const grant = { uses: 5, ttl_seconds: 86_400, scope: 'tool' };
  await decide(standing.id, { action: 'approve', grant });
  await api('POST', '/v1/actions/preflight', standing.action, developerKey);
  return {
    approvals: { open, granted: { ...granted, hash: decided.event_hash }, denied, standing },
  };
}

async function createPassports(api: Api, agentId: string) {
  const issue = async (risk_tier: string, more: object = {}) =>
    String(
      (
        await api('POST', '/v1/passports/issue', {
          tenant_id: 'default',
          agent_id: agentId,
          user_id: 'user-1',
          goal: 'Work',
          allowed_tools: ['notes.*'],
          risk_tier,
          policy_id: 'stored',
          ttl_seconds: 3600,
          audience: 'gateway://agents',
          ...more,
        })
      ).passport,
    );
  const passports = {
    unused: await issue('low'),
    unusedHigh: await issue('high'),
    used: await issue('low'),
    usedHigh: await issue('high'),
    revoked: await issue('low'),
  };
  for (const passport of [passports.used, passports.usedHigh]) {
    await api('POST', '/v1/actions/execute', { ...writeNote(agentId), passport });
  }
  const jti = claimsOf(passports.revoked).jti;
  await api('POST', '/v1/passports/revoke', { jti, reason: 'stored' });
  return { passports };
}

function claimsOf(token: string): { readonly jti: string } {
  return JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());
}

function writeNote(agentId: string) {
  const args = { note_id: 'n1', text: 'hello' };
  return { agent_id: agentId, user_id: 'user-1', tool: 'notes.write', resource: 'note:n1', args };
}

async function createExecutions(api: Api, agentId: string) {
  const execution = { ...writeNote(agentId), idempotency_key: 'stored-1' };
  const answer = await api('POST', '/v1/actions/execute', execution);
  return { execution, executionEventId: String(answer.evidence_event_id) };
}

async function createKillSwitches(api: Api) {
  const arm = async (tool: string) =>
    String(
      (
        await api('POST', '/v1/runtime/kill-switches', {
          kind: 'block_tool',
          tool,
          reason: 'stored',
        })
      ).id,
    );
  const armedSwitchId = await arm('dangerous.**');
  const disarmedSwitchId = await arm('harmless.**');
  await api('DELETE', `/v1/runtime/kill-switches/${disarmedSwitchId}`);
  return { armedSwitchId, disarmedSwitchId };
}

/**
 * Makes two calls of an agent through the proxy, one allowed and one denied, and waits until their
 * evidence is uploaded.
 */
async function callThroughSidecar({ sidecar }: Embedded, api: Api): Promise<void> {
  await until(async () => (await postNote(sidecar.proxyUrl, '/v1/notes')) === 200);
  await postNote(sidecar.proxyUrl, '/v1/other');
  await until(async () => {
    const { events } = await api('GET', '/v1/evidence/events?limit=1000');
    return (events as { source: string }[]).some(({ source }) => source.startsWith('sidecar:'));
  });
}

/** Posts a note like an agent with `HTTP_PROXY` set; returns the status. */
export function postNote(proxyUrl: string, path: string): Promise<number | undefined> {
  const { hostname, port } = new URL(proxyUrl);
  return new Promise((resolve, reject) => {
    const headers = { host: upstreamHost, 'content-type': 'application/json' };
    const target = `http://${upstreamHost}${path}`;
    const sent = request({ hostname, port, method: 'POST', path: target, headers }, (answer) => {
      answer.resume().on('end', () => resolve(answer.statusCode));
    });
    sent.on('error', reject).end('{"note_id":"n1"}');
  });
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  const giveUpAt = performance.now() + 60_000;
  while (!(await holds())) {
    if (performance.now() > giveUpAt) throw new Error('waited in vain');
    await delay(50);
  }
}
