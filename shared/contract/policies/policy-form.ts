import { z } from 'zod';
import type { JsonObject } from '../../base/json.ts';
import { approvalRoles, operators, ruleDecisions } from '../../policy/language/definition.ts';
import { policyLimits as limits } from '../../policy/language/definition-limits.ts';
import { modes } from '../../vocabulary/action.ts';
import { grantBounds, grantScopes } from '../../vocabulary/grant-terms.ts';
import { jsonObject } from '../base/fields.ts';
import { type Json, named, statedAs } from '../base/json-schema.ts';

/**
 * The JSON Schema of a policy definition. shared/policy/language/validate.ts performs the
 * validation and reports paths, so this schema states only the form.
 */

/** One line that is not blank. */
const label = (maxLength: number): Json => ({
  type: 'string',
  minLength: 1,
  maxLength,
  pattern:
    '^[^\\u0000-\\u001f\\u007f-\\u009f]*[^\\s\\u0000-\\u001f\\u007f-\\u009f][^\\u0000-\\u001f\\u007f-\\u009f]*$',
});

const closed = (properties: Json, ...required: readonly string[]): Json => ({
  type: 'object',
  properties,
  ...(required.length === 0 ? {} : { required }),
  additionalProperties: false,
});

const count = (maximum: number, minimum = 1): Json => ({ type: 'integer', minimum, maximum });

const segment = '[^.\\s]+';
/** A path such as `tool.name`. Below `usage`, only the recorded counters and sums are allowed. */
const path: Json = {
  type: 'string',
  maxLength: limits.pathLength,
  pattern: `^(?!usage\\.(?!calls_1h$|calls_24h$|sum_24h\\.(?!args($|\\.)))|usage\\.sum_24h$)${segment}(\\.${segment}){0,${limits.pathSegments - 1}}$`,
};

const scalar: readonly Json[] = [
  { type: 'string', maxLength: 8_192 },
  { type: 'number', minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER },
  { type: 'boolean' },
  { type: 'null' },
];
const listOf = (items: readonly Json[]): Json => ({
  type: 'array',
  maxItems: limits.listEntries,
  items: { anyOf: items },
});
/**
 * The server also accepts deeper lists. This schema omits them, because they would need a recursive
 * schema.
 */
const list = listOf([...scalar, listOf(scalar)]);
const reference = closed({ $ref: path }, '$ref');

const conditionWith = (words: readonly string[], value: Json): Json =>
  closed({ path, operator: { enum: words }, value }, 'path', 'operator', 'value');

const listOperators = ['in', 'not_in'];
const condition: Json = {
  anyOf: [
    conditionWith(
      operators.filter((word) => word !== 'matches' && !listOperators.includes(word)),
      { anyOf: [...scalar, list, reference] },
    ),
    conditionWith(listOperators, { anyOf: [list, reference] }),
    // An RE2 pattern; the validator checks that it compiles.
    conditionWith(['matches'], { type: 'string', maxLength: limits.patternLength }),
  ],
};

const conditions: Json = {
  type: 'array',
  minItems: 1,
  maxItems: limits.conditionsPerRule,
  items: condition,
};
const group: Json = {
  anyOf: [closed({ all: conditions }, 'all'), closed({ any: conditions }, 'any')],
};

const approval = closed({
  channel: label(limits.channelLength),
  min_role: { enum: approvalRoles },
  quorum: count(limits.quorum),
  sla_seconds: count(limits.slaSeconds),
  grant: closed({
    max_uses: count(grantBounds.usesMax),
    max_ttl_seconds: count(grantBounds.ttlSecondsMax, grantBounds.ttlSecondsMin),
    scope: { enum: grantScopes },
  }),
});

const rule = closed(
  {
    name: label(limits.nameLength),
    decision: { enum: ruleDecisions },
    reason: label(limits.reasonLength),
    approval,
    when: group,
  },
  'name',
  'decision',
  'reason',
  'when',
);

const entries: Json = {
  type: 'array',
  maxItems: limits.scopeEntries,
  items: label(limits.scopeEntryLength),
};

/** A policy in a request. zod accepts any object; the validator checks it. */
export const policyDefinition: z.ZodType<JsonObject, JsonObject> = statedAs(
  named('PolicyDefinition', jsonObject.clone()),
  closed(
    {
      id: label(limits.idLength),
      version: {
        type: 'number',
        minimum: Number.MIN_SAFE_INTEGER,
        maximum: Number.MAX_SAFE_INTEGER,
      },
      description: { type: 'string', maxLength: limits.descriptionLength },
      mode: { enum: modes },
      applies_to: closed({ tools: entries, agents: entries }),
      rules: { type: 'array', maxItems: limits.rules, items: rule },
    },
    'id',
    'version',
    'rules',
  ),
);

/** A definition, or its JSON text. */
export const rulesJson = z.union([policyDefinition, z.string().max(1_048_576)]);

export const definitionExample = {
  id: 'refunds',
  version: 1,
  rules: [
    {
      name: 'small',
      decision: 'allow',
      reason: 'refund.small_in_scope',
      when: { all: [{ path: 'args.amount', operator: '<=', value: 25 }] },
    },
  ],
};
