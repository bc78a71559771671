import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PolicyDefinition } from '../../../shared/policy/language/definition.ts';
import { loadPolicyVectors } from '../../support/policy/policy-vectors.ts';
import { freshDatabase } from '../../support/programs/postgres.ts';
import { until } from '../../support/programs/processes.ts';
import { startRedis, type TestRedis } from '../../support/programs/redis.ts';
import { type AgentClient, agentClient } from '../../support/sidecar/agent-client.ts';
import { startUpstream, type Upstream } from '../../support/sidecar/upstream.ts';
import { type Separate, startSeparate } from '../../support/system/separate.ts';

/**
 * Runs the policy vectors over the API and over a live sidecar. Most vectors are published together, each for
 * its own tool; the vectors about tool names run one after the other.
 */
const isAboutTools = (policies: readonly PolicyDefinition[]) =>
  policies.some((policy) => /"tool\.name"|"applies_to"/.test(JSON.stringify(policy)));

const cases = loadPolicyVectors()
  .flatMap(({ request, ...vector }) => (request === undefined ? [] : [{ ...vector, request }]))
  .map((vector, index) => {
    const isAlone = isAboutTools(vector.policies);
    const prefix = `v${index}-`;
    const tool = isAlone ? vector.request.tool : `vector.n${index}`;
    const matched = vector.expect.matched.map((rule) => `${prefix}${rule}`);
    const observed = (vector.expect.observed ?? []).map((rule) => `${prefix}${rule}`);
    const policies = vector.policies.map((policy) => ({
      ...policy,
      id: `${prefix}${policy.id}`,
      ...(isAlone ? {} : { applies_to: { tools: [tool] } }),
    }));
    return { ...vector, index, isAlone, tool, matched, observed, policies };
  });
type Case = (typeof cases)[number];
const together = cases.filter(({ isAlone }) => !isAlone);
const alone = cases.filter(({ isAlone }) => isAlone);

let redis: TestRedis;
let upstream: Upstream;
let world: Separate;
let agent: AgentClient;
const published: number[] = [];

beforeAll(async () => {
  const database = await freshDatabase();
  redis = await startRedis();
  upstream = await startUpstream();
  world = await startSeparate({
    databaseUrl: database.url,
    redisUrl: redis.url,
    sidecarEnv: { SALLYPORT_HOLD_MS: '1' },
  });
  agent = agentClient(world.proxyUrl);
  const names = new Set(cases.map(({ tool }) => tool).filter(isBindable));
  for (const [index, tool] of [...names].entries()) await bind(`b${index}`, tool);
}, 120_000);
afterAll(async () => {
  await agent?.close();
  await world?.close();
  await upstream?.close();
  await redis?.stop();
}, 60_000);

/** Preflight accepts any tool name, but a binding needs an exact name. */
const isBindable = (tool: string) => !tool.endsWith('.');

const pathOf = (tool: string) => `/${Buffer.from(tool).toString('hex')}`;

async function bind(name: string, tool: string): Promise<void> {
  const host = `127.0.0.1:${upstream.port}`;
  const call = { protocol: 'http', host, method: 'POST', path: pathOf(tool), body: 'json' };
  const put = { ...call, tool, resource: 'order:o-1' };
  expect(await world.api('PUT', `/v1/runtime/bindings/${name}`, put)).toMatchObject({
    status: 200,
  });
}

async function publish({ policies }: Case): Promise<void> {
  for (const policy of policies) {
    const sent = { name: policy.id, publish: true, rules_json: policy };
    const { status, body } = await world.api('POST', '/v1/policies', sent);
    expect({ status, body }).toMatchObject({ status: 201 });
    published.push(Number(body.id));
  }
}

async function withdrawAll(): Promise<void> {
  for (const id of published.splice(0)) await world.api('DELETE', `/v1/policies/${id}`);
}

/**
 * Waits until the sidecar has received all that is published. It reports its versions soon after
 * every change.
 */
async function held(): Promise<void> {
  await until('the sidecar holds what is published', async () => {
    const { body } = await world.api('GET', '/v1/sidecars');
    const { sections, sidecars } = body as {
      sections: Record<string, number>;
      sidecars: readonly { report?: { versions: Record<string, number> } }[];
    };
    return ['policies', 'bindings'].every(
      (name) => sidecars[0]?.report?.versions[name] === sections[name],
    );
  });
}

async function asked({
  tool,
  request,
  live,
  expect: expected,
  matched,
  observed,
}: Case): Promise<void> {
  const { resource, args } = request;
  const action = { tool, resource, args, agent_id: world.agentId, user_id: 'user_1' };
  const { status, body } = await world.api('POST', '/v1/actions/preflight', action);
  if (live !== undefined) {
    expect({ status, body }).toMatchObject({
      status: 401,
      body: { decision: 'deny', mode: 'strict', enforced: true, reason_code: live.preflight },
    });
    return;
  }
  const explain = body.explain as { observed?: readonly { rule: string }[] };
  const { decision, reason_code, matched_rules } = body;
  expect({ status, decision, reason_code, matched_rules }).toEqual({
    status: 200,
    decision: expected.decision,
    reason_code: expected.reason,
    matched_rules: matched,
  });
  expect((explain.observed ?? []).map(({ rule }) => rule)).toEqual(observed);
}

/** The result of each decision for an agent that does not wait. */
const endings: Readonly<Record<string, { status: number; isPerformed: boolean }>> = {
  allow: { status: 200, isPerformed: true },
  warn: { status: 200, isPerformed: true },
  require_approval: { status: 202, isPerformed: false },
  require_tool_reapproval: { status: 403, isPerformed: false },
  deny: { status: 403, isPerformed: false },
};

async function called({ tool, request, live, expect: outcome }: Case): Promise<void> {
  const expected = live === undefined ? outcome : { decision: 'deny', reason: live.sidecar };
  const before = upstream.seen.length;
  const url = `http://127.0.0.1:${upstream.port}${pathOf(tool)}`;
  const { status, body, headers } = await agent.post(url, request.args);
  const isPerformed = upstream.seen.length > before;
  const { decision, reason } = expected;
  expect({ [decision]: { status, isPerformed } }).toEqual({ [decision]: endings[decision] });
  if (isPerformed) {
    expect(headers.get('sallyport-decision')).toContain(`${decision}; reason=${reason};`);
  } else {
    const reason_code = decision === 'require_approval' ? 'approval.pending' : reason;
    expect(body).toMatchObject({ decision, reason_code });
  }
}

describe('policy vectors, all published together', () => {
  beforeAll(async () => {
    for (const one of together) await publish(one);
    await held();
  }, 120_000);
  afterAll(withdrawAll, 60_000);

  it.each(together)('decide in preflight: $name', asked);
  it.each(together)('decide a call through a sidecar: $name', called);
});

describe('policy vectors about tool names', () => {
  it.each(alone)('decide in preflight and through a sidecar: $name', async (one) => {
    await publish(one);
    await held();
    try {
      await asked(one);
      if (isBindable(one.tool)) await called(one);
    } finally {
      await withdrawAll();
    }
  });
});
