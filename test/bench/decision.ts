import type { Action } from '../../shared/decision/action.ts';
import { decide } from '../../shared/decision/decide.ts';
import type { DecisionState } from '../../shared/decision/state.ts';
import { compilePolicies } from '../../shared/policy/compile.ts';
import type { PolicyContext } from '../../shared/policy/context.ts';
import type { PolicyCondition, PolicyDefinition } from '../../shared/policy/definition.ts';
import { policyHash } from '../../shared/policy/hash.ts';
import { interpretPolicy } from './baselines/policy-interpreter.ts';
import { prepareJsonRules } from './baselines/policy-json-rules-engine.ts';
import { summarise } from './load.ts';
import type { BenchRow } from './row.ts';

const tools = 50;
const rounds = 5;
const msPerRound = 1000;
const warmUpMs = 500;

/** What tells the rules of one tool apart. */
type Shape = 'limits' | 'values' | 'texts';

type Decide = (context: PolicyContext) => string | Promise<string>;

interface Measured {
  readonly median: number;
  readonly spread: number;
}

/**
 * Policy decisions per second on one core: rules over 50 tools, of which the last one matches.
 * `texts` is the shape that the index cannot help beyond the tool: every rule of it is tried.
 */
export async function benchDecision(): Promise<BenchRow[]> {
  const rows: BenchRow[] = [];
  const byRules = new Map<number, Measured>();
  for (const rules of [1, 20, 200, 2000]) {
    const point = await comparePoint('limits', rules);
    byRules.set(rules, point.ours);
    rows.push(point.row);
  }
  rows.push((await comparePoint('values', 2000)).row, (await comparePoint('texts', 2000)).row);
  rows.push(await againstJsonRules());
  rows.push(await wholeDecision());
  rows.push(growth(byRules.get(20), byRules.get(2000)));
  return rows;
}

async function comparePoint(
  shape: Shape,
  rules: number,
): Promise<{ readonly row: BenchRow; readonly ours: Measured }> {
  const definition = definitionOf(shape, rules);
  const expected = `bench.${rules - 1}`;
  const set = compile(definition);
  const [ours, baseline] = await measure(contextsOf(rules), expected, [
    (context) => set.evaluate(context).reasonCode,
    (context) => interpretPolicy(definition, context),
  ]);
  return { row: rowOf(`policy, ${rules} rules told apart by ${shape}`, ours, baseline), ours };
}

async function againstJsonRules(): Promise<BenchRow> {
  const definition = definitionOf('limits', 200);
  const set = compile(definition);
  const [ours, baseline] = await measure(contextsOf(200), 'bench.199', [
    (context) => set.evaluate(context).reasonCode,
    prepareJsonRules(definition),
  ]);
  return {
    ...rowOf('policy, 200 rules told apart by limits', ours, baseline),
    baselineName: 'json-rules-engine',
  };
}

/** `decide` with a verified passport, a registered tool and the context built for each call. */
async function wholeDecision(): Promise<BenchRow> {
  const rules = 200;
  const set = compile(definitionOf('limits', rules));
  const state = stateOf(set, toolName(rules - 1));
  const call = (context: PolicyContext): Action => ({
    tenantId: 't-1',
    agentId: '1',
    userId: 'u-1',
    tool: toolName(rules - 1),
    resource: 'order:o-1',
    args: context.args ?? {},
  });
  const contexts = contextsOf(rules);
  const actions = new Map(contexts.map((context) => [context, call(context)]));
  const [ours, policyAlone] = await measure(contexts, `bench.${rules - 1}`, [
    (context) => decide(actions.get(context) ?? call(context), state, nowMs).reasonCode,
    (context) => set.evaluate(context).reasonCode,
  ]);
  return {
    ...rowOf(`whole decide, ${rules} rules, verified passport`, ours, policyAlone),
    baselineName: 'its policy part alone',
  };
}

const nowMs = 1_800_000_000_000;

function stateOf(policies: DecisionState['policies'], tool: string): DecisionState {
  const manifestHash = `sha256:${'a'.repeat(64)}`;
  const seconds = nowMs / 1000;
  return {
    point: 'enforcement',
    audience: 'sidecar://1',
    tenant: { id: 't-1', name: 'Bench', mode: 'enforce' },
    environment: 'prod',
    killSwitches: [],
    agent: { id: '1', name: 'agent 1', capabilities: ['mcp.**'] },
    user: { id: 'u-1', role: 'developer' },
    tool: {
      name: tool,
      manifestHash,
      approvedHash: manifestHash,
      approvalStatus: 'approved',
      riskTier: 'low',
    },
    passport: {
      form: 'signed',
      source: 'presented',
      revoked: false,
      use: 'claimed',
      claims: {
        iss: 'sallyport',
        sub: '1',
        aud: 'sidecar://1',
        tenant_id: 't-1',
        user_id: 'u-1',
        goal: 'bench',
        allowed_tools: ['mcp.**'],
        allowed_resources: ['order:*'],
        resource_constraints: { max_amount: 1000 },
        risk_tier: 'low',
        policy_id: 'bench',
        policy_hash: policies.hash,
        approval_hash: null,
        jti: 'jti_1',
        iat: seconds,
        nbf: seconds,
        exp: seconds + 300,
      },
    },
    policies,
  };
}

/** How much dearer a decision is among 2,000 rules than among 20. */
function growth(few: Measured | undefined, many: Measured | undefined): BenchRow {
  if (few === undefined || many === undefined) throw new Error('20 and 2,000 rules were not run');
  return {
    row: 'policy, cost among 2,000 rules',
    ours: 1e9 / many.median,
    baseline: 1e9 / few.median,
    baselineName: 'the same among 20',
    ratio: few.median / many.median,
    unit: 'ns/decision',
    spread: many.spread,
  };
}

function rowOf(row: string, ours: Measured, baseline: Measured): BenchRow {
  return {
    row,
    ours: ours.median,
    baseline: baseline.median,
    baselineName: 'plain interpreter',
    ratio: ours.median / baseline.median,
    unit: 'decisions/s',
    spread: ours.spread,
  };
}

/** Runs both in turn, so that whatever else the machine does falls on both. */
async function measure(
  contexts: readonly PolicyContext[],
  expected: string,
  [first, second]: readonly [Decide, Decide],
): Promise<readonly [Measured, Measured]> {
  const rates: [number[], number[]] = [[], []];
  await rate(first, contexts, expected, warmUpMs);
  await rate(second, contexts, expected, warmUpMs);
  for (let round = 0; round < rounds; round++) {
    rates[0].push(await rate(first, contexts, expected, msPerRound));
    rates[1].push(await rate(second, contexts, expected, msPerRound));
  }
  return [summarise(rates[0]), summarise(rates[1])];
}

/** Decisions per second; every answer is checked. */
async function rate(
  decide: Decide,
  contexts: readonly PolicyContext[],
  expected: string,
  durationMs: number,
): Promise<number> {
  const startedMs = performance.now();
  let done = 0;
  let elapsedMs = 0;
  do {
    for (const context of contexts) {
      const answer = decide(context);
      const reason = typeof answer === 'string' ? answer : await answer;
      if (reason !== expected) throw new Error(`decided ${reason}, expected ${expected}`);
    }
    done += contexts.length;
    elapsedMs = performance.now() - startedMs;
  } while (elapsedMs < durationMs);
  return (done / elapsedMs) * 1000;
}

function compile(definition: PolicyDefinition) {
  return compilePolicies([{ id: 1, hash: policyHash(definition), definition }]);
}

function definitionOf(shape: Shape, count: number): PolicyDefinition {
  const rules = Array.from({ length: count }, (_, index) => ({
    name: `rule ${index}`,
    decision: 'deny' as const,
    reason: `bench.${index}`,
    when: { all: conditionsOf(shape, index, index === count - 1) },
  }));
  return { id: 'bench', version: 1, rules };
}

function conditionsOf(shape: Shape, index: number, matches: boolean): PolicyCondition[] {
  const tool: PolicyCondition = { path: 'tool.name', operator: '==', value: toolName(index) };
  const enough: PolicyCondition = { path: 'args.amount', operator: '>=', value: 10 };
  switch (shape) {
    case 'limits':
      return [tool, { ...enough, value: matches ? 10 : 1000 + index }, inProd];
    case 'values':
      return [
        tool,
        { path: 'resource.id', operator: '==', value: matches ? 'o-1' : `o-${index + 2}` },
        enough,
      ];
    case 'texts':
      return [
        tool,
        { path: 'args.note', operator: 'contains', value: matches ? 'order' : `w${index}` },
        enough,
      ];
  }
}

const inProd: PolicyCondition = { path: 'environment', operator: '==', value: 'prod' };

function toolName(index: number): string {
  return `mcp.server${index % 5}.tool${index % tools}`;
}

/** Calls that differ in everything that does not decide. */
function contextsOf(rules: number): readonly PolicyContext[] {
  return Array.from({ length: 64 }, (_, index) => ({
    tenant: { id: 't-1', name: 'Bench' },
    agent: { id: String(index % 7), name: `agent ${index % 7}` },
    user: { id: `u-${index % 11}`, role: 'developer' },
    tool: { name: toolName(rules - 1), risk_tier: 'low' },
    args: { amount: 20 + index, note: `order ${index}`, currency: 'EUR' },
    resource: { id: 'o-1', type: 'order' },
    environment: 'prod',
  }));
}
