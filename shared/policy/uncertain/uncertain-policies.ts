import { finish, type Steps } from '../../base/steps.ts';
import type { Decision } from '../../vocabulary/verdict.ts';
import { combine, isCaution, isEnforcing, ruleDecision } from '../engine/combine-rules.ts';
import { byPolicyId } from '../engine/compile.ts';
import { groupConditions, ruleLabel } from '../engine/rule.ts';
import type { RuleSource } from '../engine/rule-source.ts';
import type { PolicyContext } from '../language/context.ts';
import type { PolicyDefinition, PolicyRule } from '../language/definition.ts';
import type { PublishedPolicy } from '../language/published-policy.ts';
import { compileScope } from '../language/scope.ts';
import { permits, severity } from '../language/severity.ts';
import { allOf, anyOf, compileTruth, type ReadTruth, type Truth } from './condition-truth.ts';
import { anything, type PartialValue, readPartial } from './partial-value.ts';

/** The outcome of policies for a partially known context. */
export interface UncertainOutcome {
  /** `unknown` if the unknown parts can change the decision. */
  readonly decision: Decision | 'unknown';
  /** Undefined if the unknown parts can change the reason code. */
  readonly reasonCode?: string | undefined;
  /**
   * Hash of the policy of the deciding rule; undefined if this policy is uncertain, or if no rule
   * decides.
   */
  readonly policyHash?: string | undefined;
  /** Rules that take effect and certainly match. */
  readonly matchedRules: readonly string[];
  /** Rules that may match. */
  readonly unsureRules: readonly string[];
}

interface UncertainRule extends RuleSource {
  readonly truth: ReadTruth;
}

/** Policies that can be evaluated for partially known contexts. */
export interface UncertainPolicies {
  /**
   * Returns a decision and a reason only if ordinary evaluation gives the same decision and reason
   * for every completion of the context.
   */
  judge(context: PartialValue): UncertainOutcome;
  /** Reports whether a policy in `strict` applies to the call. */
  strict(context: PartialValue): Truth;
}

/** Compiles valid policies for partially known contexts. */
export function compileUncertain(policies: readonly PublishedPolicy[]): UncertainPolicies {
  return finish(compileUncertainInSteps(policies));
}

/** Like `compileUncertain`, one rule per step. */
export function* compileUncertainInSteps(
  policies: readonly PublishedPolicy[],
): Steps<UncertainPolicies> {
  const rules: UncertainRule[] = [];
  for (const policy of [...policies].sort(byPolicyId)) {
    for (const rule of compileRules(policy)) {
      rules.push(rule);
      yield;
    }
  }
  const narrowed = new Narrowed();
  const strict = policies
    .filter(({ definition }) => definition.mode === 'strict')
    .map(({ definition }) => compileScopeTruth(definition));
  return {
    judge(context) {
      const target = targetOf(context);
      const rulesLeft = target === undefined ? rules : narrowed.rulesFor(target, rules);
      return judgeBy(rulesLeft, context);
    },
    strict: (context) => anyOf(strict.map((applies) => applies(context))),
  };
}

interface Target {
  readonly tool: string;
  readonly agent: string;
}

/**
 * The tool and agent of a context, if both are known. Most rules cannot match a given tool and
 * agent.
 */
function targetOf(context: PartialValue): Target | undefined {
  const tool = readPartial(context, ['tool', 'name']);
  const agent = readPartial(context, ['agent', 'id']);
  if (!('known' in tool) || !('known' in agent)) return undefined;
  if (typeof tool.known !== 'string' || typeof agent.known !== 'string') return undefined;
  return { tool: tool.known, agent: agent.known };
}

/** Maximum number of cached references to rules, over all targets. */
const narrowedMax = 200_000;

/** Caches for each tool and agent the rules that can match them, up to `narrowedMax` references. */
class Narrowed {
  readonly #byTarget = new Map<string, readonly UncertainRule[]>();
  #size = 0;

  /**
   * Removes the rules that cannot match this tool and agent, whatever the rest of the context is.
   */
  rulesFor({ tool, agent }: Target, rules: readonly UncertainRule[]): readonly UncertainRule[] {
    const key = JSON.stringify([tool, agent]);
    const known = this.#byTarget.get(key);
    if (known !== undefined) return known;
    const context = objectOf({
      tool: objectOf({ name: { known: tool } }),
      agent: objectOf({ id: { known: agent } }),
    });
    const left = rules.filter(({ truth }) => truth(context) !== false);
    this.#size += left.length + 1;
    if (this.#size > narrowedMax) {
      this.#byTarget.clear();
      this.#size = left.length + 1;
    }
    this.#byTarget.set(key, left);
    return left;
  }
}

function objectOf(members: Readonly<Record<string, PartialValue>>): PartialValue {
  return { members: new Map(Object.entries(members)), others: anything };
}

/** Compiles each rule on demand. */
function* compileRules({ definition, hash }: PublishedPolicy): Generator<UncertainRule> {
  const scope = compileScopeTruth(definition);
  for (const rule of definition.rules) {
    const matches = compileGroupTruth(rule);
    yield {
      label: ruleLabel(definition, rule),
      rule,
      policyMode: definition.mode ?? 'enforce',
      policyHash: hash,
      truth: (context) => {
        const inScope = scope(context);
        return inScope === false ? false : allOf([inScope, matches(context)]);
      },
    };
  }
}

function compileGroupTruth({ when, decision }: PolicyRule): ReadTruth {
  const { quantifier, conditions } = groupConditions(when);
  const truths = conditions.map((condition) => compileTruth(condition, permits(decision)));
  const join = quantifier === 'all' ? allOf : anyOf;
  return (context) => join(truths.map((truth) => truth(context)));
}

function compileScopeTruth({ applies_to }: PolicyDefinition): ReadTruth {
  const { tools, agents } = applies_to ?? {};
  const byTool = scopeTruth({ tools }, ['tool', 'name']);
  const byAgent = scopeTruth({ agents }, ['agent', 'id']);
  return (context) => allOf([byTool(context), byAgent(context)]);
}

function scopeTruth(
  applies_to: NonNullable<PolicyDefinition['applies_to']>,
  [root, name]: readonly [string, string],
): ReadTruth {
  const requirements = compileScope({ applies_to });
  if (requirements.length === 0) return () => true;
  return (context): Truth => {
    const target = readPartial(context, [root, name]);
    if (!('known' in target)) return 'unknown';
    const only = { [root]: { [name]: target.known } } as PolicyContext;
    return requirements.every(({ holds }) => holds(only));
  };
}

function judgeBy(rules: readonly UncertainRule[], context: PartialValue): UncertainOutcome {
  const sure: UncertainRule[] = [];
  const candidates: Candidate[] = [];
  const unsureRules: string[] = [];
  for (const source of rules) {
    const truth = source.truth(context);
    if (truth === false) continue;
    if (truth === true) sure.push(source);
    else unsureRules.push(source.label);
    candidates.push({ source, isSure: truth === true });
  }
  const { matchedRules } = combine(sure);
  return { ...agreed(possibleVerdicts(candidates)), matchedRules, unsureRules };
}

interface Candidate {
  readonly source: RuleSource;
  readonly isSure: boolean;
}

interface PossibleVerdict {
  readonly decision: Decision;
  readonly reasonCode: string;
  readonly policyHash?: string | undefined;
}

/** Returns all possible verdicts: any subset of the uncertain rules may match. */
function possibleVerdicts(candidates: readonly Candidate[]): readonly PossibleVerdict[] {
  const winners = possibleWinners(candidates.filter(({ source }) => isEnforcing(source)));
  const cautions = possibleWinners(candidates.filter(({ source }) => isCaution(source)));
  return winners.flatMap((winner): readonly PossibleVerdict[] => {
    if (winner === undefined) return [{ decision: 'deny', reasonCode: 'policy.no_match' }];
    const verdict = verdictBy(winner, ruleDecision(winner));
    if (verdict.decision !== 'allow') return [verdict];
    return cautions.map((caution) =>
      caution === undefined ? verdict : verdictBy(caution, 'warn'),
    );
  });
}

function verdictBy({ rule, policyHash }: RuleSource, decision: Decision): PossibleVerdict {
  return { decision, reasonCode: rule.reason, policyHash };
}

/**
 * The sources that can be the most restrictive match. Of equally restrictive sources, the first one
 * counts. Contains undefined if there may be no match.
 */
function possibleWinners(candidates: readonly Candidate[]): readonly (RuleSource | undefined)[] {
  const sureMax = candidates.reduce((max, one) => Math.max(max, sureSeverity(one)), -1);
  const isSureOfOne = sureMax >= 0;
  let isTopTaken = false;
  const winners: (RuleSource | undefined)[] = isSureOfOne ? [] : [undefined];
  for (const { source, isSure } of candidates) {
    const rank = severity(ruleDecision(source));
    if (rank < sureMax || (rank === sureMax && isTopTaken)) continue;
    winners.push(source);
    if (isSure && rank === sureMax) isTopTaken = true;
  }
  return winners;
}

function sureSeverity({ source, isSure }: Candidate): number {
  return isSure ? severity(ruleDecision(source)) : -1;
}

function agreed(
  verdicts: readonly PossibleVerdict[],
): Pick<UncertainOutcome, 'decision' | 'reasonCode' | 'policyHash'> {
  const [decision, ...otherDecisions] = new Set(verdicts.map((one) => one.decision));
  const [reasonCode, ...otherReasons] = new Set(verdicts.map((one) => one.reasonCode));
  const [policyHash, ...otherHashes] = new Set(verdicts.map((one) => one.policyHash));
  return {
    decision: decision === undefined || otherDecisions.length > 0 ? 'unknown' : decision,
    reasonCode: otherReasons.length > 0 ? undefined : reasonCode,
    policyHash: otherHashes.length > 0 ? undefined : policyHash,
  };
}
