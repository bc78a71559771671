import { createRequire } from 'node:module';
import type { PolicyContext } from '../../../shared/policy/language/context.ts';
import type {
  PolicyCondition,
  PolicyDefinition,
} from '../../../shared/policy/language/definition.ts';

// The CommonJS build for Node, which needs no initialisation after it is loaded.
const cedar: typeof import('@cedar-policy/cedar-wasm/nodejs') = createRequire(import.meta.url)(
  '@cedar-policy/cedar-wasm/nodejs',
);

const setId = 'bench';
const operators: Readonly<Record<string, string>> = { '==': '==', '>=': '>=' };

/**
 * Translates the rules to Cedar policies and parses them in advance. The returned function
 * evaluates one context and returns the reason of the policy that denies.
 */
export function prepareCedar(definition: PolicyDefinition): (context: PolicyContext) => string {
  const staticPolicies = Object.fromEntries(
    definition.rules.map(({ reason, when }) => {
      const conditions = ('all' in when ? when.all : []).map(translate).join(' && ');
      return [reason, `forbid (principal, action, resource) when { ${conditions} };`];
    }),
  );
  const parsed = cedar.preparsePolicySet(setId, { staticPolicies });
  if (parsed.type === 'failure') throw new Error(JSON.stringify(parsed.errors));
  return (context) => decide(context);
}

function decide({ agent, tool, args, resource, environment }: PolicyContext): string {
  const answer = cedar.statefulIsAuthorized({
    principal: { type: 'Agent', id: String(agent?.id) },
    action: { type: 'Action', id: 'call' },
    resource: { type: 'Resource', id: String(resource?.id) },
    context: { tool, args, environment } as never,
    entities: [],
    preparsedPolicySetId: setId,
  });
  if (answer.type === 'failure') throw new Error(JSON.stringify(answer.errors));
  return answer.response.diagnostics.reason[0] ?? 'policy.no_match';
}

function translate({ path, operator, value }: PolicyCondition): string {
  const translated = operators[operator];
  if (translated === undefined) throw new Error(`the baseline does not know ${operator}`);
  return `context.${path} ${translated} ${JSON.stringify(value)}`;
}
