import fc from 'fast-check';
import type { JsonValue } from '../../../shared/base/json.ts';
import type { PolicyContext } from '../../../shared/policy/language/context.ts';
import {
  operators,
  type PolicyCondition,
  type PolicyDefinition,
  type PolicyRule,
  ruleDecisions,
} from '../../../shared/policy/language/definition.ts';
import { policyHash } from '../../../shared/policy/language/hash.ts';
import type { PublishedPolicy } from '../../../shared/policy/language/published-policy.ts';

/**
 * Policies and contexts over a small vocabulary, so that rules often match, overlap and conflict.
 * The values include unusual ones.
 */
const toolNames = ['pay.refund', 'pay.charge', 'mail.send', 'db.read'] as const;
const paths = [
  'tool.name',
  'tool.name',
  'args.amount',
  'args.amount',
  'args.to',
  'args.limit',
  'args.a.b',
  'args.to.0',
  'args.to.length',
  'args.constructor',
  'args.__proto__.x',
  'agent.id',
  'user.role',
  'resource.customer_id',
  'environment',
  'args',
  'tool_name',
  'usage.calls_1h',
  'usage.sum_24h.a',
  'usage.sum_24h.a.b',
] as const;

const primitive: fc.Arbitrary<JsonValue> = fc.constantFrom<JsonValue>(
  0,
  1,
  5,
  10,
  10.5,
  100,
  -1,
  -0,
  '',
  '5',
  '10',
  ' 10 ',
  '1e1',
  '0x10',
  'ten',
  'a',
  'b',
  'admin',
  'prod',
  'pay.refund',
  'c1',
  true,
  false,
  null,
);
const list = fc.array(primitive, { maxLength: 4 });
const objects: fc.Arbitrary<JsonValue> = fc.constantFrom<JsonValue>(
  {},
  { b: 1 },
  { b: 'a' },
  { x: 1, y: 2 },
  { y: 2, x: 1 },
  { b: { c: [1] } },
);
export const anyValue: fc.Arbitrary<JsonValue> = fc.oneof(
  { weight: 6, arbitrary: primitive },
  { weight: 2, arbitrary: list },
  { weight: 1, arbitrary: objects },
  { weight: 1, arbitrary: fc.array(fc.oneof(list, objects), { maxLength: 2 }) },
);

const path = fc.constantFrom(...paths);
const ref = path.map((target): JsonValue => ({ $ref: target }));
const literalList = fc.oneof(list, fc.subarray<JsonValue>([...toolNames]));

const condition: fc.Arbitrary<PolicyCondition> = fc
  .record({ path, operator: fc.constantFrom(...operators) })
  .chain(({ path: at, operator }) => {
    const value =
      operator === 'matches'
        ? fc.constantFrom<JsonValue>('^pay', 'a|b', '[0-9]+', '.', 'x{2}')
        : operator === 'in' || operator === 'not_in'
          ? fc.oneof({ weight: 4, arbitrary: literalList }, { weight: 1, arbitrary: ref })
          : fc.oneof(
              { weight: 4, arbitrary: primitive },
              { weight: 1, arbitrary: fc.oneof(list, fc.constant([[1], []])) },
              { weight: 1, arbitrary: ref },
            );
    return value.map((given): PolicyCondition => ({ path: at, operator, value: given }));
  });

const byTool: fc.Arbitrary<PolicyCondition> = fc.oneof(
  fc
    .constantFrom(...toolNames)
    .map((value): PolicyCondition => ({ path: 'tool.name', operator: '==', value })),
  fc
    .subarray([...toolNames], { minLength: 1 })
    .map((value): PolicyCondition => ({ path: 'tool.name', operator: 'in', value })),
);

const group: fc.Arbitrary<PolicyRule['when']> = fc.oneof(
  fc.array(condition, { minLength: 1, maxLength: 3 }).map((all) => ({ all })),
  fc
    .tuple(byTool, fc.array(condition, { maxLength: 2 }))
    .map(([tool, others]) => ({ all: [tool, ...others] })),
  fc.array(condition, { minLength: 1, maxLength: 3 }).map((any) => ({ any })),
  fc.array(byTool, { minLength: 1, maxLength: 2 }).map((any) => ({ any })),
);

const rule: fc.Arbitrary<Omit<PolicyRule, 'name'>> = fc.record(
  {
    decision: fc.constantFrom(...ruleDecisions),
    reason: fc.constantFrom('r.one', 'r.two', 'r.three'),
    when: group,
    approval: fc.record(
      {
        channel: fc.constantFrom('itsm', 'chat_a', 'chat_b'),
        min_role: fc.constantFrom('approver', 'admin', 'owner'),
        quorum: fc.integer({ min: 1, max: 3 }),
        sla_seconds: fc.integer({ min: 1, max: 100 }),
      },
      { requiredKeys: [] },
    ),
  },
  { requiredKeys: ['decision', 'reason', 'when'] },
);

function definition(rules: fc.Arbitrary<Omit<PolicyRule, 'name'>>, rulesMax: number) {
  return fc
    .record(
      {
        version: fc.integer({ min: 1, max: 9 }),
        mode: fc.constantFrom('monitor', 'warn', 'enforce', 'strict'),
        applies_to: fc.record(
          {
            tools: fc.subarray<string>([...toolNames]),
            agents: fc.subarray(['1', '2', '*']),
          },
          { requiredKeys: [] },
        ),
        rules: fc
          .array(rules, { maxLength: rulesMax })
          .map((all) => all.map((one, index) => ({ name: `r${index}`, ...one }))),
      },
      { requiredKeys: ['version', 'rules'] },
    )
    .map((fields) => ({ id: 'p', ...fields }) as PolicyDefinition);
}

/** A published set of up to six policies with distinct ids. */
export const policies: fc.Arbitrary<readonly PublishedPolicy[]> = fc
  .array(definition(rule, 12), { maxLength: 6 })
  .map((definitions) =>
    definitions.map((one, index) => publish(index + 1, { ...one, id: `p${index + 1}` })),
  );

export function publish(id: number, definition: PolicyDefinition): PublishedPolicy {
  return { id, hash: policyHash(definition), definition };
}

const amount = fc.constantFrom(0, 5, 10, 10.5, 100);

export const context: fc.Arbitrary<PolicyContext> = fc.record(
  {
    tool: fc.record({ name: fc.constantFrom(...toolNames) }),
    agent: fc.record({ id: fc.constantFrom('1', '2', '3') }),
    user: fc.record({ role: fc.constantFrom('admin', 'dev') }, { requiredKeys: [] }),
    args: fc.record(
      { amount: anyValue, to: anyValue, limit: anyValue, a: anyValue },
      { requiredKeys: [] },
    ),
    resource: fc.record({ customer_id: anyValue }, { requiredKeys: [] }),
    environment: fc.constantFrom('prod', 'dev'),
    usage: fc.record(
      {
        calls_1h: fc.constantFrom(0, 1, 5, 10),
        sum_24h: fc.record({ a: amount, 'a.b': amount }, { requiredKeys: [] }),
      },
      { requiredKeys: [] },
    ),
  },
  { requiredKeys: ['tool'] },
);
