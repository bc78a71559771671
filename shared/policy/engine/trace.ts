import type { JsonValue } from '../../base/json.ts';
import type { Steps } from '../../base/steps.ts';
import type { PolicyContext } from '../language/context.ts';
import type { PublishedPolicy } from '../language/published-policy.ts';
import { compileScope } from '../language/scope.ts';
import { compileTrial, type RuleEvidence } from './replay.ts';

interface TracedRule {
  readonly policy: string;
  readonly rule: string;
  readonly decision: string;
  readonly matched: boolean;
  readonly conditions: RuleEvidence['condition_results'];
}

interface Trace {
  readonly rules: readonly TracedRule[];
  readonly leftOff: number;
}

const valueCharsMax = 1_000;

/**
 * Returns a function that reports every rule whose policy applies to a context, with the result of
 * each condition, in order of precedence. Each step handles one rule. If there are more than `max`
 * rules, rules that did not match are omitted first.
 */
export function compileTrace(
  policies: readonly PublishedPolicy[],
): (context: PolicyContext, max: number) => Steps<Trace> {
  const compiled = policies.map(compileLazily);
  return function* trace(context, max) {
    const all: TracedRule[] = [];
    for (const traceOne of compiled) {
      for (const traced of traceOne(context)) {
        all.push(traced);
        yield;
      }
    }
    if (all.length <= max) return { rules: all, leftOff: 0 };
    const matched = all.filter((rule) => rule.matched).length;
    let spare = Math.max(0, max - matched);
    const kept = all.filter((rule) => rule.matched || spare-- > 0).slice(0, max);
    return { rules: kept, leftOff: all.length - kept.length };
  };
}

/** Compiles on demand, because most policies apply to no context of a batch. */
function compileLazily({ definition }: PublishedPolicy) {
  const scope = compileScope(definition);
  const trials: ReturnType<typeof compileTrial>[] = [];
  return function* trace(context: PolicyContext): Generator<TracedRule> {
    if (!scope.every(({ holds }) => holds(context))) return;
    for (const [index, rule] of definition.rules.entries()) {
      const trial = trials[index] ?? compileTrial(rule);
      trials[index] = trial;
      const { condition_results: conditions, ...tried } = trial(context, true);
      yield { policy: definition.id, ...tried, conditions: conditions.map(shortened) };
    }
  };
}

/** Shortens values, because a long argument would be repeated for every rule that reads it. */
function shortened(result: RuleEvidence['condition_results'][number]) {
  const { path, operator, expected, actual } = result;
  return {
    path,
    operator,
    ...(isShort(expected) ? { expected } : {}),
    ...(isShort(actual) ? { actual } : {}),
    result: result.result,
  };
}

function isShort(value: JsonValue | undefined): boolean {
  if (typeof value === 'string') return value.length <= valueCharsMax;
  return typeof value !== 'object' || JSON.stringify(value).length <= valueCharsMax;
}
