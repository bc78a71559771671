import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { describeChanges } from '../../../cli/policy/describe-changes.ts';
import type { PolicyDefinition } from '../../../shared/policy/language/definition.ts';
import { policyHash } from '../../../shared/policy/language/hash.ts';
import { parsePolicy } from '../../../shared/policy/language/validate.ts';
import { readPolicyFile } from '../../../shared/policy-cases/read-policy.ts';
import { policies } from '../../support/policy/policy-arbitraries.ts';
import { condition, policy, rule } from '../../support/policy/policy-drafts.ts';

const definitions = policies
  .filter((all) => all.length > 0)
  .map(([first]) => ({ ...first?.definition, id: 'p' }) as PolicyDefinition);

describe('describeChanges', () => {
  it('reports no change if and only if both policies have the same hash', () => {
    fc.assert(
      fc.property(definitions, definitions, (before, after) => {
        const same = policyHash(before) === policyHash(after);
        expect(describeChanges(before, after).length === 0).toBe(same);
        expect(describeChanges(before, structuredClone(before))).toEqual([]);
      }),
      { numRuns: 300 },
    );
  });

  it('reports a removed rule, a duplicated rule and a changed quantifier', () => {
    fc.assert(
      fc.property(definitions, fc.nat(11), (before, at) => {
        const one = before.rules[at % Math.max(1, before.rules.length)];
        if (one === undefined) return;
        const rest = before.rules.filter((other) => other !== one);
        const gone = describeChanges(before, { ...before, rules: rest });
        expect(gone.some(({ kind, rule }) => kind === 'rule_removed' && rule === one.name)).toBe(
          true,
        );
        const twin = { ...one, name: 'twin' };
        const doubled = describeChanges(before, { ...before, rules: [...before.rules, twin] });
        expect(doubled).toMatchObject([{ kind: 'rule_added', rule: 'twin' }]);
        const when = 'all' in one.when ? { any: one.when.all } : { all: one.when.any };
        const turned = before.rules.map((other) => (other === one ? { ...one, when } : other));
        expect(describeChanges(before, { ...before, rules: turned })).toMatchObject([
          {
            kind: 'rule_changed',
            rule: one.name,
            text: expect.stringMatching(/^conditions: (all|any) →/),
          },
        ]);
      }),
      { numRuns: 200 },
    );
  });

  const base = policy({ rules: [rule(), rule({ name: 'b' })], applies_to: { tools: ['x', 'y'] } });
  const amount = (value: unknown, operator = '<=') =>
    condition({ path: 'args.amount', operator, value });
  it.each([
    ['mode', { ...base, mode: 'monitor' }, ['mode: none → "monitor"']],
    ['scope', { ...base, applies_to: { tools: ['y', 'z'] } }, ['applies_to.tools: + z, - x']],
    ['no scope', { ...base, applies_to: {} }, ['applies_to.tools: x, y → any']],
    [
      'order of scope',
      { ...base, applies_to: { tools: ['y', 'x'] } },
      ['applies_to.tools: order changed'],
    ],
    [
      'order',
      { ...base, rules: [rule({ name: 'b' }), rule()] },
      ['rule order changed: the first of equally strict rules gives the reason'],
    ],
    [
      'decision',
      { ...base, rules: [rule({ decision: 'deny' }), rule({ name: 'b' })] },
      ['decision: "allow" → "deny"'],
    ],
    [
      'approval',
      { ...base, rules: [rule({ approval: { quorum: 2 } }), rule({ name: 'b' })] },
      ['approval.quorum: none → 2'],
    ],
    [
      'a condition more',
      { ...base, rules: [rule({ when: { all: [condition(), amount(5)] } }), rule({ name: 'b' })] },
      ['+ args.amount <= 5'],
    ],
    [
      'a reference',
      {
        ...base,
        rules: [
          rule({ when: { all: [condition({ value: { $ref: 'args.x' } })] } }),
          rule({ name: 'b' }),
        ],
      },
      ['tool.name == "pay.refund" → args.x'],
    ],
    [
      'the same condition twice',
      {
        ...base,
        rules: [rule({ when: { all: [condition(), condition()] } }), rule({ name: 'b' })],
      },
      ['order or notation of conditions changed, meaning unchanged'],
    ],
    [
      'an empty field',
      { ...base, rules: [rule({ approval: {} }), rule({ name: 'b' })] },
      ['order or notation of conditions changed, meaning unchanged'],
    ],
  ])('describes a change of a policy: %s', (_what, after, texts) => {
    const changes = describeChanges(parsePolicy(base), parsePolicy(after));
    expect(changes.map(({ text }) => text)).toEqual(texts);
  });
});

it('any policy is read unchanged from YAML in block or flow style and from JSON', () => {
  fc.assert(
    fc.property(definitions, (generated) => {
      // JSON does not keep minus zero.
      const definition = parsePolicy(JSON.stringify(generated));
      const texts = [
        ['a.policy.yaml', stringify(definition, { aliasDuplicateObjects: false })],
        [
          'b.policy.yaml',
          stringify(definition, { aliasDuplicateObjects: false, collectionStyle: 'flow' }),
        ],
        ['c.policy.json', JSON.stringify(definition, null, 1)],
      ] as const;
      for (const [name, text] of texts) {
        const { hash } = readPolicyFile({ name, bytes: Buffer.from(text) });
        expect(hash).toBe(policyHash(definition));
      }
    }),
    { numRuns: 200 },
  );
});
