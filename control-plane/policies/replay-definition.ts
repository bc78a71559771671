import type { JsonObject } from '../../shared/base/json.ts';
import { type PolicyReplay, replayInSteps } from '../../shared/policy/engine/replay.ts';
import type { PolicyContext } from '../../shared/policy/language/context.ts';
import { parsePolicyInSteps } from '../../shared/policy/language/validate.ts';
import { pauser, runWithPauses } from '../platform/scheduling/pauser.ts';

interface Expected {
  readonly decision?: string | undefined;
  readonly reason_code?: string | undefined;
}

interface Conformance {
  readonly passed: boolean;
  readonly expected: { decision?: string; reason_code?: string };
  readonly actual: { readonly decision: string; readonly reason_code: string };
}

/**
 * Evaluates a policy in one context and, if an expectation is given, reports whether it was met.
 */
export async function replayDefinition({
  policy,
  context,
  expected,
}: {
  readonly policy: JsonObject;
  readonly context: JsonObject;
  readonly expected?: Expected | undefined;
}): Promise<PolicyReplay & { readonly conformance?: Conformance }> {
  const pause = pauser();
  const definition = await runWithPauses(parsePolicyInSteps(policy), pause);
  const replay = await runWithPauses(replayInSteps(definition, context as PolicyContext), pause);
  if (expected === undefined) return replay;
  return { ...replay, conformance: compare(expected, replay.verdict) };
}

function compare(
  expected: Expected,
  { decision, reason_code }: { readonly decision: string; readonly reason_code: string },
): Conformance {
  const agrees = (wish: string | undefined, got: string) => wish === undefined || wish === got;
  return {
    passed: agrees(expected.decision, decision) && agrees(expected.reason_code, reason_code),
    expected: {
      ...(expected.decision === undefined ? {} : { decision: expected.decision }),
      ...(expected.reason_code === undefined ? {} : { reason_code: expected.reason_code }),
    },
    actual: { decision, reason_code },
  };
}
