import { describe, expect, it } from 'vitest';
import { policyHash } from '../../../shared/policy/language/hash.ts';
import { readPolicyFile } from '../../../shared/policy-cases/read-policy.ts';
import { readSource, SourceError } from '../../../shared/policy-cases/source.ts';
import { condition, policy, rule, withRule } from '../../support/policy/policy-drafts.ts';

const file = (text: string | Uint8Array, name = 'a.policy.yaml') => ({
  name,
  bytes: typeof text === 'string' ? Buffer.from(text) : text,
});
const read = (text: string | Uint8Array, name?: string) => readSource(file(text, name)).value;

function refusal(act: () => unknown): string {
  try {
    act();
  } catch (error) {
    if (error instanceof SourceError) return error.message;
    throw error;
  }
  throw new Error('nothing was refused');
}

describe('reading a policy file', () => {
  it('gives the same hash for YAML and JSON', () => {
    const yaml = `
id: refunds
version: 1
rules:
  - name: small
    decision: allow
    reason: refund.small_in_scope
    when:
      all:
        - { path: tool.name, operator: ==, value: pay.refund }
`;
    const json = JSON.stringify(policy(), null, '\t');
    const [one, other] = [
      readPolicyFile(file(yaml)),
      readPolicyFile(file(json, 'a.policy.json')),
    ] as const;
    expect(one.hash).toBe(other.hash);
    expect(one.hash).toBe(policyHash(one.definition));
    expect(one.definition).toEqual(policy());
  });

  it('reads numbers in the same way as JSON, and unquoted words as text', () => {
    expect(read('[1, -0.5, 1e3, true, null, ~, abc, 1.2.3, 2026-11-21, "no", \'0x1f\']')).toEqual([
      1,
      -0.5,
      1000,
      true,
      null,
      null,
      'abc',
      '1.2.3',
      '2026-11-21',
      'no',
      '0x1f',
    ]);
  });

  it('reads `__proto__` as an ordinary key', () => {
    const value = read('{ "__proto__": { polluted: true } }') as object;
    expect(Object.keys(value)).toEqual(['__proto__']);
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
  });
});

describe('an error message about a policy file', () => {
  it.each([
    ['an operator without quotes', 'operator: >=\n', 1, 'operator: ">="'],
    ['an operator that looks like a tag', 'a: { operator: != }\n', 1, 'operator: ">="'],
    ['an operator within braces', 'a: 1\nb: { operator: >= }\n', 2, 'operator: ">="'],
    [
      'a missing colon',
      'a: 1\nrules\n  - x: 1\n',
      2,
      'is a colon, or the space after it, missing?',
    ],
    ['a missing space', 'a:1\nb: 2\n', 1, 'is a colon, or the space after it, missing?'],
    [
      'inconsistent indentation',
      'r:\n   - n: a\n     b: 1\n  - n: c\n',
      4,
      'is the indentation different',
    ],
    ['a tab', 'a:\n\t- b\n', 2, 'use spaces'],
    ['an open bracket', 'a: [1, 2\nb: 3\n', 2, 'closing bracket'],
    ['two documents', 'a: 1\n---\nb: 2\n', 2, 'use one file for each'],
  ])('reports the line and the correction for %s', (_, text, line, told) => {
    const message = refusal(() => read(text));
    expect(message).toMatch(new RegExp(`^a\\.policy\\.yaml:${line}: `));
    expect(message).toContain(told);
  });
});

describe('ambiguous YAML', () => {
  it.each([
    ['a tag', 'a: 1\nb: !!str 2', ':2: a tag (tag:yaml.org,2002:str)'],
    ['an unknown tag', 'a: !exec rm', ':1: Unresolved tag'],
    ['a tag on a mapping', 'a:\n  !!map\n  b: 1', 'a tag'],
    ['a tag on a key', '!!str a: 1', 'a tag'],
    ['an anchor', 'a: 1\nb: &x 1', ':2: an anchor (&x)'],
    ['an anchor on a key', '&k a: 1', 'an anchor (&k)'],
    ['an anchor on a mapping', 'a: &x\n  b: 1', 'an anchor (&x)'],
    ['an alias', 'b: *x', ':1: '],
    ['a merge key', 'a: 1\n<<: { b: 1 }', ':2: a merge key'],
    ['a duplicate key', 'a: 1\nb: 2\n"\\x61": 3', ':3: the key "a" is given twice'],
    ['a duplicate numeric key', '1: a\n"1": b', ':2: the key "1" is given twice'],
    ['a key that is a list', '? [a]\n: 1', ':1: '],
    ['two documents', 'a: 1\n---\nb: 2', ':2: '],
    ['another version of YAML', '%YAML 1.1\n---\na: 1', 'a %YAML directive'],
    ['hexadecimal', 'a: 1\nb: 0x1f', ':2: 0x1f: write the number as JSON does'],
    ['octal', 'a: 0o17', '0o17: write the number'],
    ['the octal form of YAML 1.1', 'a: 010', '010: write the number'],
    ['a number with a plus sign', 'a: +5', '+5: write the number'],
    ['infinity', 'a: .inf', '.inf: write the number'],
    ['NaN', 'a: .nan', '.nan: write the number'],
    [
      'an integer that a double cannot represent',
      'a: 12345678901234567890',
      'cannot be stored exactly; round it',
    ],
    [
      'a fraction that a double cannot represent',
      'a: 0.12345678901234567890123',
      'cannot be stored exactly',
    ],
    ['a number with thousands separators', 'a: 1_000', '1_000: write the number without _'],
    ['the word `no`', 'a:\n  - SE\n  - NO', ':3: NO: write true or false, or quote it'],
    ['the word `on`', 'a: on', 'on: write true or false'],
    ['an unpaired surrogate', 'a: "\\uD800"', 'half of a surrogate pair'],
    ['an empty file', '# only this\n', ':1: empty'],
    ['a syntax error', 'a: 1\nb: [1, 2', ':2: '],
    ['tabs', 'a:\n\tb: 1', ':2: Tabs are not allowed'],
  ])('is refused with its line if it contains %s', (_what, text, message) => {
    const told = refusal(() => read(text));
    expect(told).toMatch(/^a\.policy\.yaml:\d+: /);
    expect(told).toContain(message);
  });

  it('is refused if it is not valid UTF-8 or is larger than 1 MiB', () => {
    expect(refusal(() => read(new Uint8Array([0x61, 0xff])))).toContain('not UTF-8');
    expect(refusal(() => read(`a: ${'x'.repeat(1024 * 1024)}`))).toContain('larger than 1048576');
  });

  it('is refused if the name of the file ends in .json', () => {
    expect(read('{"a": 1}', 'a.json')).toEqual({ a: 1 });
    expect(refusal(() => read('a: 1', 'a.json'))).toContain('named .json, but not JSON');
    expect(refusal(() => read('{"a": 1,}', 'a.json'))).toContain('named .json, but not JSON');
    expect(refusal(() => read('{\n"a": 1,\n"a": 2}', 'a.json'))).toContain(':3: the key "a"');
  });

  it.each([
    ['nested flow collections', '['.repeat(100_000)],
    ['nested mappings', '{a: '.repeat(100_000)],
    ['nested lists', '- '.repeat(100_000)],
    ['65 levels', `${'['.repeat(65)}${']'.repeat(65)}`],
    ['exponential aliases', `a: &a [x,x]\n${'b'.repeat(20).replaceAll('b', 'b: [*a,*a]\n')}`],
  ])('is refused, without a crash, if it contains %s', (_what, text) => {
    expect(refusal(() => read(text))).toMatch(/^a\.policy\.yaml:\d+: /);
  });

  it('is refused if the last of tens of thousands of keys is a duplicate', () => {
    const text = Array.from({ length: 30_000 }, (_, index) => `k${index}: 1`).join('\n');
    expect(Object.keys(read(text) as object)).toHaveLength(30_000);
    expect(refusal(() => read(`${text}\nk0: 1`))).toContain(':30001: the key "k0"');
  });
});

describe('the error message about an invalid policy', () => {
  const lines = (definition: unknown) => JSON.stringify(definition, null, 2);
  it.each([
    [
      'an unknown decision',
      withRule({ decision: 'alow' }),
      '"decision"',
      'rules[0].decision: "alow"',
    ],
    [
      'an unknown operator',
      withRule({ when: { all: [condition({ operator: '=' })] } }),
      '"operator"',
      '"="',
    ],
    ['an unknown key', withRule({ wen: 1 }), '"wen"', 'rules[0].wen: unknown key'],
    [
      'an unknown key that needs quoting',
      withRule({ 'w en': 1 }),
      '"w en"',
      'rules[0]["w en"]: unknown key',
    ],
    ['a missing member', policy({ rules: [rule(), { name: 'x' }] }), '"name": "x"', 'rules[1].dec'],
  ])('contains the line of the problem for %s', (_what, definition, marker, message) => {
    const text = lines(definition);
    const told = refusal(() => readPolicyFile(file(text, 'b.policy.json')));
    expect(told).toContain(message);
    const line = Number(/^b\.policy\.json:(\d+): /.exec(told)?.[1]);
    const found = text.split('\n').findIndex((one) => one.includes(marker)) + 1;
    // A missing member is reported at the object that lacks it.
    expect([found, found - 1]).toContain(line);
  });
});
