import { finish, type Steps } from '../../shared/base/steps.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { PolicyDefinition } from '../../shared/policy/language/definition.ts';
import { parsePolicyInSteps } from '../../shared/policy/language/validate.ts';

/** The definition of a stored policy. A text that is none was not stored by this system. */
export function storedDefinition(text: string): PolicyDefinition {
  return finish(storedDefinitionInSteps(text));
}

/** The same, one rule a step. */
export function* storedDefinitionInSteps(text: string): Steps<PolicyDefinition> {
  try {
    return yield* parsePolicyInSteps(text);
  } catch (cause) {
    throw new GatewayError('integrity.forged_row', { cause });
  }
}
