import { GatewayError } from '../../shared/errors.ts';
import type { PolicyDefinition } from '../../shared/policy/definition.ts';
import { parsePolicy } from '../../shared/policy/validate.ts';

/** The definition of a stored policy. A text that is none was not stored by this system. */
export function storedDefinition(text: string): PolicyDefinition {
  try {
    return parsePolicy(text);
  } catch (cause) {
    throw new GatewayError('integrity.forged_row', { cause });
  }
}
