import { Engine } from 'json-rules-engine';
import type { PolicyContext } from '../../../shared/policy/language/context.ts';
import type {
  PolicyCondition,
  PolicyDefinition,
} from '../../../shared/policy/language/definition.ts';

const operators: Readonly<Record<string, string>> = {
  '==': 'equal',
  '>=': 'greaterThanInclusive',
};

/**
 * Translates the rules for json-rules-engine and parses them in advance. The returned function
 * evaluates one context and returns the reason of the rule that fires.
 */
export function prepareJsonRules(
  definition: PolicyDefinition,
): (context: PolicyContext) => Promise<string> {
  const rules = definition.rules.map((rule) => ({
    conditions: { all: ('all' in rule.when ? rule.when.all : []).map(translate) },
    event: { type: rule.reason },
  }));
  const engine = new Engine(rules);
  return async (context) => {
    const { events } = await engine.run(context);
    return events[0]?.type ?? 'policy.no_match';
  };
}

function translate({ path, operator, value }: PolicyCondition) {
  const [fact = '', ...rest] = path.split('.');
  const translated = operators[operator];
  if (translated === undefined) throw new Error(`the baseline does not know ${operator}`);
  return { fact, path: `$.${rest.join('.')}`, operator: translated, value };
}
