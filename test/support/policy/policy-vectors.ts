import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parse } from 'yaml';
import type { JsonObject, JsonValue } from '../../../shared/base/json.ts';
import type { PolicyContext } from '../../../shared/policy/language/context.ts';
import type {
  Operator,
  PolicyDefinition,
  PolicyRule,
  RuleDecision,
} from '../../../shared/policy/language/definition.ts';

/**
 * Golden cases of the policy language, in `test/vectors/policy/*.yaml`. One file is
 *
 *   policies:            definitions by name; the name is their `id`, `version` is 1
 *     refunds: { rules: […] }
 *   cases:
 *     - name: what the case shows
 *       policies: [a, b] published in this order, which is the order of their ids;
 *                        default: every policy of the file
 *       context: {…}     roots of the PolicyContext, over the defaults below
 *       pure: true       no request can cause this context (directory, manifest, passport,
 *                        another agent), so only the pure function is tested
 *       expect:          decision, reason, matched (default none) and, if they matter,
 *                        observed, approval and deciding (name of the policy whose hash the
 *                        verdict contains); strict: true if the policies raise the mode to `strict`
 *       live:            if an earlier stage denies the call: the reason codes of a preflight
 *                        without a passport and of a call through a sidecar
 *
 * A case about a single condition is shorter. It stands for the policy `case` with one rule,
 * `case/rule`, that has only this condition and the reason `case.matched`:
 *
 *     - name: …
 *       decision: deny                       of the rule; default allow
 *       condition: [args.amount, '>', 100]   path, operator, value
 *       context: {…}
 *       holds: true                          else the expected reason is policy.no_match
 */
interface PolicyVector {
  readonly name: string;
  /** The policies in the order of their publication. */
  readonly policies: readonly PolicyDefinition[];
  readonly context: PolicyContext;
  /** The call that results in this context; undefined for a `pure` case. */
  readonly request: VectorRequest | undefined;
  readonly expect: VectorExpectation;
  readonly live: LiveDenials | undefined;
}

interface VectorRequest {
  readonly tool: string;
  readonly resource: string;
  readonly args: JsonObject;
}

interface VectorExpectation {
  readonly decision: string;
  readonly reason: string;
  readonly matched: readonly string[];
  readonly observed?: readonly string[] | undefined;
  readonly approval?: JsonObject | undefined;
  /** `id` of the policy whose hash the verdict contains. */
  readonly deciding?: string | undefined;
  readonly strict?: boolean | undefined;
}

interface LiveDenials {
  readonly preflight: string;
  readonly sidecar: string;
}

interface VectorCase {
  readonly name: string;
  readonly policies?: readonly string[];
  readonly context?: JsonObject;
  readonly pure?: boolean;
  readonly expect?: Omit<VectorExpectation, 'matched'> & { readonly matched?: readonly string[] };
  readonly live?: LiveDenials;
  readonly decision?: RuleDecision;
  readonly condition?: readonly [path: string, operator: Operator, value: JsonValue];
  readonly holds?: boolean;
}

interface VectorFile {
  readonly policies?: Readonly<Record<string, Omit<PolicyDefinition, 'id' | 'version'>>>;
  readonly cases: readonly VectorCase[];
}

const folder = resolve(import.meta.dirname, '../../vectors/policy');

const defaults = {
  tenant: { id: 't-1' },
  agent: { id: '1' },
  user: { id: 'user_1' },
  tool: { name: 'pay.refund' },
  resource: { type: 'order', id: 'o-1' },
  args: {},
  environment: 'prod',
};

const effects: Readonly<Partial<Record<RuleDecision, string>>> = {
  require_reauth: 'deny',
  require_policy_update: 'deny',
  dry_run: 'deny',
};

/** Returns all golden cases. The name of each begins with the name of its file. */
export function loadPolicyVectors(): readonly PolicyVector[] {
  return readdirSync(folder)
    .filter((file) => file.endsWith('.yaml'))
    .sort()
    .flatMap((file) => {
      const content: VectorFile = parse(readFileSync(join(folder, file), 'utf8'));
      return content.cases.map((one) => expand(file.replace('.yaml', ''), content, one));
    });
}

function expand(file: string, content: VectorFile, one: VectorCase): PolicyVector {
  const context: PolicyContext = { ...defaults, ...one.context };
  return {
    name: `${file}: ${one.name}`,
    policies: one.condition ? [singleCondition(one)] : namedPolicies(content, one),
    context,
    request: one.pure ? undefined : requestOf(context),
    expect: one.condition ? singleExpectation(one) : expectationOf(one),
    live: one.live,
  };
}

function namedPolicies({ policies = {} }: VectorFile, one: VectorCase): PolicyDefinition[] {
  return (one.policies ?? Object.keys(policies)).map((name) => {
    const definition = policies[name];
    if (definition === undefined) throw new Error(`${one.name}: no policy ${name} in this file`);
    return { id: name, version: 1, ...definition };
  });
}

function expectationOf({ name, expect }: VectorCase): VectorExpectation {
  if (expect === undefined) throw new Error(`${name}: expect is missing`);
  return { matched: [], ...expect };
}

function singleCondition({ name, condition, decision = 'allow' }: VectorCase): PolicyDefinition {
  if (condition === undefined) throw new Error(`${name}: condition is missing`);
  const [path, operator, value] = condition;
  const rule: PolicyRule = {
    name: 'rule',
    decision,
    reason: 'case.matched',
    when: { all: [{ path, operator, value }] },
  };
  return { id: 'case', version: 1, rules: [rule] };
}

function singleExpectation({ decision = 'allow', holds }: VectorCase): VectorExpectation {
  return holds
    ? {
        decision: effects[decision] ?? decision,
        reason: 'case.matched',
        matched: ['case/rule'],
        deciding: 'case',
      }
    : { decision: 'deny', reason: 'policy.no_match', matched: [] };
}

function requestOf({ tool, resource, args }: PolicyContext): VectorRequest {
  const type = resource?.type === undefined ? '' : `${String(resource.type)}:`;
  return { tool: String(tool?.name), resource: `${type}${String(resource?.id)}`, args: args ?? {} };
}
