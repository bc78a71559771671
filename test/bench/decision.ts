import { decide } from '../../shared/decision/decide.ts';
import type { DecisionState } from '../../shared/decision/state.ts';
import { compilePolicies } from '../../shared/policy/engine/compile.ts';
import type { PolicyContext } from '../../shared/policy/language/context.ts';
import type { PolicyCondition, PolicyDefinition } from '../../shared/policy/language/definition.ts';
import { policyHash } from '../../shared/policy/language/hash.ts';
import type { Action } from '../../shared/vocabulary/action.ts';
import { prepareCedar } from './baselines/policy-cedar.ts';
import { interpretPolicy } from './baselines/policy-interpreter.ts';
import { prepareJsonRules } from './baselines/policy-json-rules-engine.ts';
import { benchPolicyChange } from './policy-change.ts';
import { type BenchRow, type Summary, summarise } from './row.ts';

const tools = 50;
const rounds = 5;
const msPerRound = 1000;
const warmUpMs = 500;

/** The kind of values that distinguish the rules of one tool. */
type Shape = 'limits' | 'values' | 'texts';

/**
 * Measures policy decisions per second on one core, with rules for 50 tools of which only the last
 * rule matches. In the shape `texts`, the index can select rules only by tool, so every rule of the
 * tool is tried.
 */
export async function benchDecision(): Promise<BenchRow[]> {
  const rows: BenchRow[] = [];
  for (const rules of [1, 20, 200, 2000]) rows.push(await againstInterpreter('limits', rules));
  rows.push(await againstInterpreter('values', 2000), await againstInterpreter('texts', 2000));
  rows.push(
    await againstJsonRules(),
    await againstCedar(),
    await wholeDecision(),
    await growth(),
    ...benchPolicyChange(),
  );
  return rows;
}

async function againstInterpreter(shape: Shape, rules: number): Promise<BenchRow> {
  const definition = definitionOf(shape, rules);
  const load = loadOf(rules);
  const [ours, baseline] = await measure(policyOf(shape, rules), {
    ...load,
    decide: (context) => interpretPolicy(definition, context),
  });
  return rowOf(`policy, ${rules} rules told apart by ${shape}`, ours, baseline);
}

async function againstJsonRules(): Promise<BenchRow> {
  const decide = prepareJsonRules(definitionOf('limits', 200));
  const [ours, baseline] = await measure(policyOf('limits', 200), { ...loadOf(200), decide });
  const row = rowOf('policy, 200 rules told apart by limits', ours, baseline);
  return { ...row, baselineName: 'json-rules-engine' };
}

async function againstCedar(): Promise<BenchRow> {
  const decide = prepareCedar(definitionOf('limits', 200));
  const [ours, baseline] = await measure(policyOf('limits', 200), { ...loadOf(200), decide });
  const row = rowOf('policy, 200 rules told apart by limits', ours, baseline);
  return { ...row, baselineName: 'Cedar wasm, preparsed' };
}

/**
 * Measures `decide` with a verified passport and a registered tool. The context is built for each
 * call.
 */
async function wholeDecision(): Promise<BenchRow> {
  const rules = 200;
  const state = stateOf(compile(definitionOf('limits', rules)), toolName(rules - 1));
  const load = loadOf(rules);
  const actions = new Map(load.contexts.map((context) => [context, actionOf(context)]));
  const decideWhole = (context: PolicyContext) =>
    decide(actions.get(context) ?? actionOf(context), state, nowMs).reasonCode;
  const [ours, policyAlone] = await measure(
    { ...load, decide: decideWhole },
    policyOf('limits', rules),
  );
  const p99 = p99Micros(load.contexts, decideWhole);
  const name = `whole decide, ${rules} rules, verified passport (p99 ${p99.toFixed(1)} µs)`;
  return { ...rowOf(name, ours, policyAlone), baselineName: 'its policy part alone' };
}

/** Returns the 99th percentile of the time of single decisions, in microseconds. */
function p99Micros(
  contexts: readonly PolicyContext[],
  decideOne: (context: PolicyContext) => string,
): number {
  const times: number[] = [];
  for (let round = 0; round < 2_000; round++) {
    for (const context of contexts) {
      const startedMs = performance.now();
      decideOne(context);
      times.push(performance.now() - startedMs);
    }
  }
  times.sort((a, b) => a - b);
  return (times[Math.floor(times.length * 0.99)] ?? 0) * 1_000;
}

function actionOf({ tool, args }: PolicyContext): Action {
  return {
    tenantId: 't-1',
    agentId: '1',
    userId: 'u-1',
    tool: String(tool?.name),
    resource: 'order:o-1',
    args: args ?? {},
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

/** Measures how much more a decision among 2,000 rules costs than a decision among 20. */
async function growth(): Promise<BenchRow> {
  const [many, few] = await measure(policyOf('limits', 2000), policyOf('limits', 20));
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

function rowOf(row: string, ours: Summary, baseline: Summary): BenchRow {
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

/** A decider, its input, and the expected result. */
interface Subject {
  readonly decide: (context: PolicyContext) => string | Promise<string>;
  readonly contexts: readonly PolicyContext[];
  readonly expected: string;
}

function loadOf(rules: number): Omit<Subject, 'decide'> {
  return { contexts: contextsOf(rules), expected: `bench.${rules - 1}` };
}

function policyOf(shape: Shape, rules: number): Subject {
  const set = compile(definitionOf(shape, rules));
  return { ...loadOf(rules), decide: (context) => set.evaluate(context).reasonCode };
}

/** Measures both alternately, so that other load on the machine affects both. */
async function measure(first: Subject, second: Subject): Promise<readonly [Summary, Summary]> {
  const rates: [number[], number[]] = [[], []];
  await rate(first, warmUpMs);
  await rate(second, warmUpMs);
  for (let round = 0; round < rounds; round++) {
    rates[0].push(await rate(first, msPerRound));
    rates[1].push(await rate(second, msPerRound));
  }
  return [summarise(rates[0]), summarise(rates[1])];
}

/** Returns decisions per second. Every result is checked. */
async function rate({ decide, contexts, expected }: Subject, durationMs: number): Promise<number> {
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

/** Returns contexts of calls that all get the same decision but differ in every other value. */
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
