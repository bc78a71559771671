import { lintInSteps } from '../../shared/policy/lint/lint.ts';
import { toolsNamedBy } from '../../shared/policy/lint/named-tools.ts';
import { boundedWarnings } from '../core/bounded-warnings.ts';
import type { Services } from '../core/services.ts';
import { inTurns, pauser } from '../platform/scheduling/pauser.ts';
import type { Policy } from '../platform/store/generated/client.ts';
import { warnUnknownTools } from '../tools/warn-unknown-tools.ts';
import { storedDefinitionInSteps } from './stored-definition.ts';

const textMax = 1_000;

/**
 * The probable mistakes in a stored policy: what lint reports as an error or a warning of this policy
 * alone, and tools that match no known one. The policy is stored all the same.
 */
export async function policyWarnings(
  services: Services,
  { tenantId, definition }: Pick<Policy, 'tenantId' | 'definition'>,
): Promise<{ readonly warnings?: string[] }> {
  const pause = pauser(services.clock);
  const parsed = await inTurns(storedDefinitionInSteps(definition), pause);
  const findings = await inTurns(lintInSteps([parsed]), pause);
  const linted = findings
    .filter(({ severity }) => severity !== 'info')
    .map(({ path, kind, message, fix }) =>
      `${path}: ${message} ${fix} (${kind})`.slice(0, textMax),
    );
  const { warnings = [] } = await warnUnknownTools(services, tenantId, toolsNamedBy(parsed));
  return boundedWarnings([...linted, ...warnings]);
}
