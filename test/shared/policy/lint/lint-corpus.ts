import type { PolicyRule, RuleDecision } from '../../../../shared/policy/language/definition.ts';

type Terse = readonly [path: string, operator: string, value: unknown];

/**
 * The relation of two rules: `meet` means that some context matches both, `apart` that none does.
 */
type Relation = 'meet' | 'apart' | 'open';

interface Pair {
  readonly name: string;
  readonly one: PolicyRule;
  readonly other: PolicyRule;
  /** `open`: the relation is undecided, so lint must not claim either of the others. */
  readonly relation: Relation;
}

function rule(decision: RuleDecision, terse: readonly Terse[], any: boolean): PolicyRule {
  const conditions = terse.map(([path, operator, value]) => ({ path, operator, value }));
  const when = any ? { any: conditions } : { all: conditions };
  return { name: decision, decision, reason: `x.${decision}`, when } as PolicyRule;
}

/**
 * Builds a pair: an allow rule and a deny rule for the same tool, with these conditions and this
 * relation.
 */
function pair(
  relation: Relation,
  name: string,
  allow: readonly Terse[],
  deny: readonly Terse[],
  { any = false }: { readonly any?: boolean } = {},
): Pair {
  const tool: Terse = ['tool.name', '==', 'pay.refund'];
  const one = rule('allow', any ? allow : [tool, ...allow], any);
  return { name, relation, one, other: rule('deny', any ? deny : [tool, ...deny], any) };
}

const amount = 'args.amount';
const to = 'args.to';
const b = { $ref: 'args.b' };
const a = { $ref: 'args.a' };

/** Manually written pairs. Their relation follows from the language definition. */
export const pairs: readonly Pair[] = [
  // Ranges
  pair('meet', 'ranges that overlap', [[amount, '<=', 100]], [[amount, '>', 50]]),
  pair('apart', 'ranges that touch without meeting', [[amount, '<=', 50]], [[amount, '>', 50]]),
  pair('meet', 'ranges that meet in one point', [[amount, '<=', 50]], [[amount, '>=', 50]]),
  pair('apart', 'an open point', [[amount, '<', 50]], [[amount, '>=', 50]]),
  pair('apart', 'ranges far apart', [[amount, '<', 10]], [[amount, '>', 1000]]),
  pair(
    'apart',
    'a band and what lies outside',
    [
      [amount, '>', 10],
      [amount, '<=', 20],
    ],
    [[amount, '>', 20]],
  ),
  pair(
    'meet',
    'a band within a band',
    [
      [amount, '>', 10],
      [amount, '<', 20],
    ],
    [
      [amount, '>', 14],
      [amount, '<', 15],
    ],
  ),
  pair('meet', 'a band of fractions', [[amount, '>', 1.25]], [[amount, '<', 1.5]]),
  pair('meet', 'negative limits', [[amount, '<', -5]], [[amount, '>', -10]]),
  pair('apart', 'zero and its negative', [[amount, '>', 0]], [[amount, '<=', -0]]),
  pair(
    'open',
    'a band between two neighbouring numbers',
    [[amount, '>', 1]],
    [[amount, '<', 1 + Number.EPSILON]],
  ),
  pair('meet', 'ranges of different paths', [[amount, '<', 5]], [['args.fee', '>', 500]]),
  // Numeric text
  pair('meet', 'a limit written as text', [[amount, '<=', '100']], [[amount, '>', 50]]),
  pair('apart', 'a limit written as text, apart', [[amount, '<=', '50']], [[amount, '>', '50.0']]),
  pair('apart', 'a limit with an exponent', [[amount, '<=', 100]], [[amount, '>', '1e2']]),
  pair('meet', 'a text that is a number', [[amount, '==', '70']], [[amount, '>', 50]]),
  pair('apart', 'a text that is a smaller number', [[amount, '==', '7']], [[amount, '>', 50]]),
  pair('apart', 'a number and its text', [[amount, '==', 5]], [[amount, '==', '5']]),
  pair('apart', 'a text that is no number', [[amount, '==', '1e3x']], [[amount, '>', 50]]),
  pair(
    'meet',
    'a text with an exponent that only denies',
    [[amount, '==', '1e3']],
    [[amount, '>', 50]],
  ),
  pair(
    'apart',
    'a text with an exponent that never permits',
    [[amount, '>', 50]],
    [[amount, '==', '1e3']],
  ),
  pair('apart', 'hexadecimal text', [[amount, '==', '0xff']], [[amount, '>', 1]]),
  pair('apart', 'empty text', [[amount, '==', '']], [[amount, '<=', 0]]),
  pair('meet', 'text with a sign and spaces', [[amount, '==', ' +60 ']], [[amount, '>', 50]]),
  // Sets and equality
  pair(
    'meet',
    'lists with one value in common',
    [[to, 'in', ['a', 'b']]],
    [[to, 'in', ['b', 'c']]],
  ),
  pair('apart', 'lists with none', [[to, 'in', ['a', 'b']]], [[to, 'in', ['c', 'd']]]),
  pair('apart', 'a value and a list without it', [[to, '==', 'a']], [[to, 'in', ['b']]]),
  pair('apart', 'a value and its exclusion', [[to, '==', 'a']], [[to, '!=', 'a']]),
  pair('meet', 'a value and another exclusion', [[to, '==', 'a']], [[to, '!=', 'b']]),
  pair('apart', 'a list and its exclusion', [[to, 'in', ['a', 'b']]], [[to, 'not_in', ['b', 'a']]]),
  pair(
    'meet',
    'a list of which one is not excluded',
    [[to, 'in', ['a', 'b', 'c']]],
    [[to, 'not_in', ['a', 'b']]],
  ),
  pair('meet', 'two exclusions', [[to, '!=', 'a']], [[to, '!=', 'b']]),
  pair('apart', 'capitals', [[to, '==', 'A']], [[to, '==', 'a']]),
  pair('meet', 'zero and its negative as values', [[amount, '==', 0]], [[amount, '==', -0]]),
  pair(
    'apart',
    'a value inside the excluded range',
    [[amount, 'in', [1, 2, 3]]],
    [[amount, '>', 3]],
  ),
  pair('meet', 'a list and a range', [[amount, 'in', [1, 2, 30]]], [[amount, '>', 3]]),
  // Null, booleans, containers
  pair('apart', 'null and false', [[to, '==', null]], [[to, '==', false]]),
  pair('apart', 'true and false', [[to, '==', true]], [[to, '==', false]]),
  pair('apart', 'true and its text', [[to, '==', true]], [[to, '==', 'true']]),
  pair('meet', 'null and an exclusion', [[to, '==', null]], [[to, '!=', 'a']]),
  pair('apart', 'null and a limit', [[to, '==', null]], [[to, '<', 5]]),
  pair('apart', 'true and a limit', [[to, '==', true]], [[to, '>=', 1]]),
  pair('meet', 'lists that are equal', [[to, '==', ['a', 1]]], [[to, '==', ['a', 1]]]),
  pair('apart', 'lists in another order', [[to, '==', ['a', 'b']]], [[to, '==', ['b', 'a']]]),
  pair('meet', 'a list that a deny cannot compare', [[to, 'contains', 'a']], [[to, '!=', 'b']]),
  pair(
    'apart',
    'an allow never compares a list with a word',
    [[to, '!=', 'b']],
    [[to, '==', ['a']]],
  ),
  // Missing values
  pair('meet', 'a path that only the deny looks at', [[amount, '<', 5]], [[to, '!=', 'a']]),
  pair('apart', 'a place that must be there and is not', [['args', '==', 5]], [[amount, '>', 5]]),
  // Context fields with enumerated values
  pair('apart', 'environments', [['environment', '==', 'dev']], [['environment', '==', 'prod']]),
  pair(
    'apart',
    'all environments but one, twice',
    [['environment', 'not_in', ['dev', 'staging']]],
    [['environment', '!=', 'prod']],
  ),
  pair(
    'meet',
    'environments that are left over',
    [['environment', '!=', 'dev']],
    [['environment', 'not_in', ['prod']]],
  ),
  pair(
    'apart',
    'tiers',
    [['tool.risk_tier', 'in', ['low', 'medium']]],
    [['tool.risk_tier', 'in', ['high', 'critical']]],
  ),
  pair(
    'apart',
    'a name that is text, and a limit',
    [['agent.name', '==', 'bot']],
    [['agent.name', '>', 5]],
  ),
  // contains and matches
  pair('meet', 'parts of one text', [[to, 'contains', 'ab']], [[to, 'contains', 'cd']]),
  pair('meet', 'elements of one list', [[to, 'contains', 'a']], [[to, 'contains', 5]]),
  pair(
    'apart',
    'an element that is a number, and a pattern',
    [[to, 'contains', 5]],
    [[to, 'matches', '5']],
  ),
  pair('apart', 'an element that is a number, and a limit', [[to, 'contains', 5]], [[to, '>', 1]]),
  pair('apart', 'a value without the part', [[to, '==', 'xyz']], [[to, 'contains', 'b']]),
  pair('meet', 'a value with the part', [[to, '==', 'abc']], [[to, 'contains', 'b']]),
  pair(
    'apart',
    'values that the pattern does not find',
    [[to, 'in', ['a', 'b']]],
    [[to, 'matches', '^c']],
  ),
  pair(
    'meet',
    'values of which the pattern finds one',
    [[to, 'in', ['a', 'cc']]],
    [[to, 'matches', '^c']],
  ),
  pair(
    'open',
    'domains of which a text has one',
    [[to, 'matches', '^[a-z]+@acme\\.com$']],
    [[to, 'matches', '@evil\\.com$']],
  ),
  pair(
    'meet',
    'a beginning and an end',
    [[to, 'matches', '@acme\\.com$']],
    [[to, 'matches', '^ceo']],
  ),
  pair(
    'meet',
    'a pattern and a part',
    [[to, 'matches', '^[a-z]+-[0-9]{2}$']],
    [[to, 'contains', '-']],
  ),
  pair('meet', 'a pattern and a range', [[amount, 'matches', '^[0-9]+$']], [[amount, '>', 50]]),
  pair(
    'open',
    'patterns in other alphabets',
    [[to, 'matches', '^[a-z]+$']],
    [[to, 'matches', '^[0-9]+$']],
  ),
  // Two paths
  pair('meet', 'equal paths and a value', [['args.a', '==', b]], [['args.a', '==', 5]]),
  pair('apart', 'equal and different paths', [['args.a', '==', b]], [['args.a', '!=', b]]),
  pair(
    'apart',
    'equal and different, the other way round',
    [['args.a', '==', b]],
    [['args.b', '!=', a]],
  ),
  pair(
    'apart',
    'equal paths with different values',
    [
      ['args.a', '==', b],
      ['args.a', '==', 1],
    ],
    [['args.b', '==', 2]],
  ),
  pair('apart', 'less and more', [['args.a', '<', b]], [['args.a', '>', b]]),
  pair('apart', 'less and more, the other way round', [['args.a', '<', b]], [['args.b', '<=', a]]),
  pair('meet', 'at most and at least', [['args.a', '<=', b]], [['args.a', '>=', b]]),
  pair(
    'meet',
    'less, within ranges',
    [
      ['args.a', '<', b],
      ['args.a', '>', 10],
    ],
    [['args.b', '<', 20]],
  ),
  pair(
    'apart',
    'less, against the ranges',
    [
      ['args.a', '<', b],
      ['args.a', '>', 20],
    ],
    [['args.b', '<', 10]],
  ),
  pair('apart', 'inside and outside of a list', [['args.a', 'in', b]], [['args.a', 'not_in', b]]),
  pair('meet', 'inside a list, and a value', [['args.a', 'in', b]], [['args.a', '==', 'x']]),
  pair(
    'meet',
    'the owner and somebody else',
    [[amount, '<', 5]],
    [['args.owner', '!=', { $ref: 'user.id' }]],
  ),
  // any
  pair(
    'meet',
    'one of the alternatives',
    [
      ['tool.name', '==', 'x'],
      ['tool.name', '==', 'y'],
    ],
    [['tool.name', 'in', ['y', 'z']]],
    { any: true },
  ),
  pair(
    'apart',
    'none of the alternatives',
    [
      ['tool.name', '==', 'x'],
      ['tool.name', '==', 'y'],
    ],
    [['tool.name', '==', 'z']],
    { any: true },
  ),
];
