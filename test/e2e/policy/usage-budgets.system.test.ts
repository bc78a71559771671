import { fetch, ProxyAgent } from 'undici';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../../support/programs/processes.ts';
import { startTwoOfEach, type TwoOfEach } from '../../support/system/two-of-each.ts';

interface Answer {
  readonly status: number;
  readonly body: Record<string, unknown>;
}

let world: TwoOfEach;
beforeAll(async () => {
  world = await startTwoOfEach();
}, 120_000);
afterAll(() => world.close());

/**
 * Binds a new tool and publishes a policy that allows its calls, or requires an approval, within a budget.
 */
async function budgeted(
  name: string,
  path: string,
  operator: string,
  value: number,
  decision: 'allow' | 'require_approval' = 'allow',
) {
  const host = `127.0.0.1:${world.upstream.port}`;
  const tool = `bank.${name}`;
  await world.api('PUT', `/v1/runtime/bindings/${name}`, {
    protocol: 'http',
    host,
    method: 'POST',
    path: `/${name}`,
    body: 'json',
    tool,
    resource: 'account:main',
  });
  const isTool = { path: 'tool.name', operator: '==', value: tool };
  const within = { name: 'within', decision, reason: `${name}.within` };
  const published = await world.api('POST', '/v1/policies', {
    name,
    publish: true,
    rules_json: {
      id: name,
      version: 1,
      rules: [{ ...within, when: { all: [isTool, { path, operator, value }] } }],
    },
  });
  expect(published.status).toBe(201);
  const post = (by: 0 | 1, args: unknown = {}): Promise<Answer> =>
    world.sidecars[by].agent.post(`http://${host}/${name}`, args);
  const performed = () => world.upstream.seen.filter(({ url }) => url === `/${name}`).length;
  for (const by of [0, 1] as const) await knows(by, tool, decision);
  return { tool, post, performed };
}

/** Waits until a sidecar would return this decision for a call without arguments. No such call is made. */
async function knows(by: 0 | 1, tool: string, decision: string): Promise<void> {
  const dispatcher = new ProxyAgent({ uri: world.sidecars[by].proxyUrl, proxyTunnel: false });
  await until(`sidecar ${by} decides ${decision} on ${tool}`, async () => {
    const response = await fetch('http://sallyport.internal/manifest', { dispatcher });
    const { tools } = (await response.json()) as { tools: ManifestTool[] };
    const found = tools.find((one) => one.tool === tool);
    return found?.without_arguments?.decision === decision;
  }).finally(() => dispatcher.close());
}

interface ManifestTool {
  readonly tool?: string;
  readonly without_arguments?: { readonly decision: string };
}

async function preflight(tool: string, args: unknown): Promise<unknown> {
  const { body } = await world.api('POST', '/v1/actions/preflight', {
    tool,
    resource: 'account:main',
    args,
    agent_id: world.agentId,
    user_id: 'user_1',
  });
  return body.decision;
}

let markers = 0;

/**
 * Waits until a sidecar has all current counts. A sidecar that knows a later call also knows the earlier
 * calls.
 */
async function knowsTheLedger(by: 0 | 1): Promise<void> {
  markers += 1;
  const { tool } = await budgeted(`marker${markers}`, 'usage.calls_1h', '<', 1);
  expect(await preflight(tool, {})).toBe('allow');
  await knows(by, tool, 'deny');
}

const times = (count: number, call: (n: number) => Promise<Answer>) =>
  Promise.all(Array.from({ length: count }, (_, n) => call(n)));
const passed = (answers: readonly Answer[]) => answers.filter(({ status }) => status === 200);
const resetsAt = ({ body }: Answer) =>
  String((body.details as { resets_at?: string } | undefined)?.resets_at);

describe('a budget of calls', () => {
  it('of 50 allows exactly 50 of 200 concurrent calls through one sidecar, and none through the other sidecar afterwards', async () => {
    const { tool, post, performed } = await budgeted('refund', 'usage.calls_1h', '<', 50);
    const answers = await times(200, () => post(0));
    expect(passed(answers)).toHaveLength(50);
    expect(performed()).toBe(50);
    const refused = answers.filter(({ status }) => status !== 200);
    for (const { status, body } of refused) {
      expect({ status, ...body }).toMatchObject({ status: 403, reason_code: 'policy.no_match' });
    }
    const [first] = refused;
    if (first === undefined) throw new Error('nothing was refused');
    const inMs = Date.parse(resetsAt(first)) - Date.now();
    expect(inMs).toBeGreaterThan(59 * 60_000 - 60_000);
    expect(inMs).toBeLessThanOrEqual(61 * 60_000);
    expect(String(first.body.next_steps)).toContain(resetsAt(first));

    await knows(1, tool, 'deny');
    const there = await times(20, () => post(1));
    expect(passed(there)).toHaveLength(0);
    // Both sidecars have the same counts if they report the same reset time.
    expect([...new Set(there.map(resetsAt))]).toEqual([resetsAt(await post(0))]);
    expect(performed()).toBe(50);
  });

  it('can be exceeded by two concurrent sidecars by at most the remaining budget, until both know the total', async () => {
    const { tool, post, performed } = await budgeted('draw', 'usage.calls_24h', '<', 20);
    await times(10, () => post(0));
    await until('the ledger has them', async () => (await countedCalls(tool)) === 10);
    await knowsTheLedger(1);
    const answers = await times(60, (n) => post(n % 2 === 0 ? 0 : 1));
    const more = passed(answers).length;
    expect(more).toBeGreaterThanOrEqual(10);
    expect(more).toBeLessThanOrEqual(20);
    for (const by of [0, 1] as const) await knows(by, tool, 'deny');
    const after = await times(20, (n) => post(n % 2 === 0 ? 0 : 1));
    expect(passed(after)).toHaveLength(0);
    expect(performed()).toBe(10 + more);
    await until(
      'the ledger counts every call',
      async () => (await countedCalls(tool)) === 10 + more,
    );
  });

  it('keeps its count after the kill of a sidecar, including calls that were not yet uploaded', async () => {
    const { post, performed } = await budgeted('withdraw', 'usage.calls_1h', '<', 20);
    expect(passed(await times(12, () => post(0)))).toHaveLength(12);
    await world.sidecars[0].program.kill();
    await world.sidecars[0].start();
    const answers: Answer[] = [];
    await until('it knows what it did before', async () => {
      answers.push(...(await times(30, () => post(0))));
      return answers.some(({ body }) => body.reason_code === 'policy.no_match');
    });
    const reasons = new Set(passedNot(answers).map(({ body }) => body.reason_code));
    reasons.delete('usage.unknown');
    expect([...reasons]).toEqual(['policy.no_match']);
    expect(passed(answers)).toHaveLength(8);
    expect(performed()).toBe(20);
  }, 120_000);
});

it('a call that waits for a human is counted once, when it is performed', async () => {
  const { tool, post, performed } = await budgeted(
    'wire',
    'usage.calls_1h',
    '<',
    2,
    'require_approval',
  );
  const held = [1, 2, 3].map((n) => post(0, { n }));
  const decided = new Set<string>();
  await until('a human agreed to all of them', async () => {
    const { body } = await world.api('GET', '/v1/approvals');
    const open = (body.approvals as { id: unknown; tool: string; status: string }[]).filter(
      (one) => one.tool === tool && one.status === 'pending',
    );
    for (const { id } of open) {
      await world.api('POST', `/v1/approvals/${id}/decide`, { action: 'approve' });
      decided.add(String(id));
    }
    return decided.size === 3;
  });
  const answers = await Promise.all(held);
  // All three were within the budget when they were held; the budget is checked again when they
  // continue.
  expect(passed(answers)).toHaveLength(2);
  expect(passedNot(answers)[0]?.body.reason_code).toBe('policy.no_match');
  expect(performed()).toBe(2);
  await until('the ledger counts two', async () => (await countedCalls(tool)) === 2);
  const counted = (await world.events('decision')).filter((event) => event.tool === tool);
  const isCounted = ({ data }: Record<string, unknown>) =>
    (data as { usage?: unknown }).usage !== undefined;
  expect(counted.filter(isCounted).map((event) => event.reason_code)).toEqual([
    'approval.satisfied',
    'approval.satisfied',
  ]);
}, 120_000);

describe('a budget of a sum', () => {
  it('is shared by sidecars and control plane, and each decision records the amount that it adds', async () => {
    const { tool, post } = await budgeted('send', 'usage.sum_24h.order.total', '<=', 100);
    const order = (total: unknown) => ({ order: { total } });
    expect((await post(0, order(101))).status).toBe(403);
    expect((await post(0, order('60.5'))).status).toBe(200);
    expect((await post(0, order(-1000))).status).toBe(200);
    await until('the control plane knows what was sent', async () => {
      return (await countedCalls(tool)) === 2;
    });
    expect(await preflight(tool, order(39.6))).toBe('deny');
    expect(await preflight(tool, order(39.5))).toBe('allow');
    await knowsTheLedger(1);
    expect((await post(1, order(0.01))).status).toBe(403);
    expect((await post(1, order(0))).status).toBe(200);
    const added = (await world.events('decision'))
      .filter((event) => event.tool === tool && event.decision === 'allow')
      .map(({ data }) => (data as { usage?: unknown }).usage);
    expect(added.slice(0, 3)).toEqual([{ 'order.total': 60.5 }, {}, { 'order.total': 39.5 }]);
  });
});

const passedNot = (answers: readonly Answer[]) => answers.filter(({ status }) => status !== 200);

/** Returns the number of calls of a tool that the ledger contains. */
async function countedCalls(tool: string): Promise<number> {
  const events = await world.events('decision');
  const isCounted = ({ data }: Record<string, unknown>) =>
    (data as { usage?: unknown }).usage !== undefined;
  return events.filter((event) => event.tool === tool && isCounted(event)).length;
}
