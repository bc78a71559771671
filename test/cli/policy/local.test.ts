import fs from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  type PolicyFolder,
  policyFolder,
  refundCases,
  refundsPolicy,
} from '../../support/policy/policy-files.ts';

let folder: PolicyFolder;
beforeEach(() => {
  folder = policyFolder();
});
afterEach(() => folder.remove());

const policy = (...args: readonly string[]) => folder.sallyport('policy', ...args);

describe('policy lint', () => {
  it('needs no server, reports no findings for valid files, and exits with 0', async () => {
    folder.write('refunds.policy.yaml', refundsPolicy());
    folder.write('refunds.cases.json', refundCases([20, 'allow']));
    expect(await policy('lint')).toEqual({
      code: 0,
      out: '1 policy: 0 errors, 0 warnings, 0 notes\n',
      err: '',
    });
  });

  it('reports file, line, rule and fix of each finding in all files, and exits with 1', async () => {
    folder.write('a/refunds.policy.yaml', refundsPolicy());
    folder.write(
      'b.policy.yaml',
      refundsPolicy().replace('id: refunds', 'id: b').replace('allow', 'alow'),
    );
    folder.write('c.cases.yaml', 'cases:\n  - nme: x\n');
    folder.write(
      'freeze.policy.json',
      JSON.stringify(
        {
          id: 'freeze',
          version: 1,
          applies_to: { tools: ['payments.refund'] },
          rules: [
            {
              name: 'nothing',
              decision: 'deny',
              reason: 'payments.frozen',
              when: { all: [{ path: 'args.amount', operator: '<=', value: 500 }] },
            },
          ],
        },
        null,
        2,
      ),
    );
    const { code, out, err } = await policy('lint');
    expect([code, err]).toEqual([1, '']);
    expect(out).toContain(
      'b.policy.yaml:8: error invalid: rules[0].decision: "alow" is not one of',
    );
    expect(out).toContain('c.cases.yaml:2: error invalid: cases[0].nme: unknown key');
    // This finding is about two files: one of them allows what the other one always denies.
    expect(out).toMatch(
      /^a\/refunds\.policy\.yaml:7: \w+ shadowed_rule: refunds\/small: .*freeze/m,
    );
    const json = await policy('lint', '--json');
    expect(json.code).toBe(1);
    const { findings, counts } = JSON.parse(json.out);
    expect(findings).toContainEqual({
      kind: 'shadowed_rule',
      severity: expect.stringMatching(/^(warning|error)$/),
      file: 'a/refunds.policy.yaml',
      line: 7,
      policy: 'refunds',
      rule: 'refunds/small',
      path: 'rules[0]',
      message: expect.any(String),
      fix: expect.any(String),
      other: 'freeze/nothing',
    });
    expect(Object.keys(counts)).toEqual(['error', 'warning', 'info']);
    expect(counts.error).toBeGreaterThanOrEqual(2);
  });

  it('reads only the given files and folders, and skips hidden folders, node_modules and links', async () => {
    folder.write('good/a.policy.yaml', refundsPolicy());
    folder.write('bad/b.policy.yaml', 'id: [');
    for (const hidden of ['good/.git', 'good/node_modules'])
      folder.write(`${hidden}/c.policy.yaml`, '[');
    fs.symlinkSync(join(folder.path, 'bad'), join(folder.path, 'good/linked'));
    folder.write('good/notes.yaml', '[');
    expect((await policy('lint', 'good', 'good/a.policy.yaml')).out).toMatch(/^1 policy: 0 errors/);
  });

  it('replaces control characters of files in its output', async () => {
    folder.write('x.policy.yaml', 'id: x\nversion: 1\n"\\e[2J\u202E": 1\nrules: []\n');
    const { code, out } = await policy('lint');
    expect(code).toBe(1);
    expect(out.replaceAll('\n', '')).not.toMatch(/\p{C}/u);
  });
});

describe('policy test', () => {
  it('runs cases on the policies in their folder, and exits with 0 if all pass', async () => {
    folder.write('refunds/refunds.policy.yaml', refundsPolicy());
    folder.write(
      'refunds/refunds.cases.json',
      refundCases(
        [20, 'allow', 'refund.small_in_scope'],
        [500, 'require_approval'],
        [5000, 'deny'],
      ),
    );
    folder.write('other/other.policy.yaml', 'not: a policy');
    expect(await policy('test', 'refunds')).toEqual({
      code: 0,
      err: '',
      out: `refunds/refunds.cases.json
  ✓ 20 allow
  ✓ 500 require_approval
  ✓ 5000 deny
3 cases passed, 0 failed
`,
    });
  });

  it('explains how to set the usage in a case if a budget decides the case and the usage is missing', async () => {
    const budget = '        - { path: usage.calls_1h, operator: "<", value: 5 }\n';
    folder.write(
      'refunds.policy.yaml',
      refundsPolicy().replace(/(value: 100 \}\n)/, `$1${budget}`),
    );
    folder.write('refunds.cases.json', refundCases([20, 'allow']));
    const { code, out } = await policy('test');
    expect(code).toBe(1);
    expect(out).toContain(
      'in the context of the case: usage: { calls_1h: 3, sum_24h: { amount: 150 } }\n',
    );
  });

  it('reports failed cases with their differences and lines, reports rules that no case matches, and exits with 1', async () => {
    folder.write('refunds.policy.yaml', refundsPolicy());
    folder.write('refunds.cases.json', refundCases([20, 'deny', 'x.y'], [500, 'require_approval']));
    const { code, out, err } = await policy('test');
    expect([code, err]).toEqual([1, '']);
    expect(out).toBe(`refunds.cases.json
  ✗ 20 deny  (refunds.cases.json:1)
      decision: expected deny, got allow
      reason_code: expected x.y, got refund.small_in_scope
      allow refund.small_in_scope; matched: refunds/small
  ✓ 500 require_approval
refunds.policy.yaml:21: no case matches refunds/large
1 case passed, 1 failed
`);
    const json = await policy('test', '--json');
    expect(json.code).toBe(1);
    expect(JSON.parse(json.out)).toEqual({
      files: [
        {
          file: 'refunds.cases.json',
          policies: ['refunds.policy.yaml'],
          cases: [
            {
              name: '20 deny',
              line: 1,
              passed: false,
              differences: [
                { field: 'decision', expected: 'deny', actual: 'allow' },
                { field: 'reason_code', expected: 'x.y', actual: 'refund.small_in_scope' },
              ],
              actual: {
                decision: 'allow',
                reason_code: 'refund.small_in_scope',
                matched_rules: ['refunds/small'],
                observed: [],
              },
            },
            expect.objectContaining({
              name: '500 require_approval',
              passed: true,
              differences: [],
            }),
          ],
        },
      ],
      counts: { passed: 1, failed: 1 },
      rules_without_case: [{ file: 'refunds.policy.yaml', line: 21, rule: 'refunds/large' }],
    });
  });

  it('reads only the policies that a case file names, relative to the folder of that file', async () => {
    folder.write('policies/refunds.yaml', refundsPolicy());
    folder.write('tests/deny.policy.yaml', 'not: a policy');
    const cases = JSON.parse(refundCases([20, 'allow'], [2000, 'deny']));
    folder.write(
      'tests/a.cases.json',
      JSON.stringify({ policies: ['../policies/refunds.yaml'], ...cases }),
    );
    expect((await policy('test', 'tests')).code).toBe(0);
  });
});

describe('a failed policy command', () => {
  it.each([
    ['an unknown command', ['tset'], 'Did you mean test?\nUsage: sallyport policy'],
    ['no command', [], 'Usage: sallyport policy'],
    ['an unknown option', ['lint', '--jsno'], "Unknown option '--jsno'. Did you mean --json?"],
    ['no file to backtest', ['backtest'], "Missing required argument 'file'"],
    ['a surplus argument', ['packs', 'payments'], 'Expected 0 arguments but got 1: payments.'],
    ['no such folder', ['lint', 'nowhere'], 'nowhere: no such file or folder.'],
    ['nothing to lint', ['lint', 'empty'], 'Found no file to lint'],
    ['nothing to test', ['test', 'empty'], 'Found no case file'],
    ['nothing to push', ['push', 'empty'], 'Found no policy in empty'],
    ['cases without policies', ['test', 'lone'], 'lone/a.cases.json: its folder has no policy'],
    ['a policy that cannot be read', ['test', 'broken'], 'broken/a.policy.yaml:1: '],
    ['cases that cannot be read', ['test', 'odd'], 'odd/a.cases.yaml:2: cases[0].nme: unknown key'],
    ['a policy that is missing', ['test', 'missing'], 'missing/gone.yaml: no such file'],
    ['two policies of one id', ['test', 'twins'], 'both have the id refunds'],
    ['no key', ['diff', 'twins/one.policy.yaml'], 'This command needs an API key'],
    ['two files to backtest', ['backtest', 'a', 'b'], 'Expected 1 argument but got 2'],
    [
      'a period of nothing',
      ['backtest', '--last', 'week', 'twins/one.policy.yaml'],
      "Option '--last <duration>' argument 'week' is invalid. Use a number and a unit",
    ],
  ])(
    'exits with 2, explains the failure on stderr and prints nothing on stdout: %s',
    async (_what, args, message) => {
      fs.mkdirSync(join(folder.path, 'empty'));
      folder.write('lone/a.cases.json', refundCases([20, 'allow']));
      folder.write('broken/a.cases.json', refundCases([20, 'allow']));
      folder.write('broken/a.policy.yaml', '[');
      folder.write('odd/a.policy.yaml', refundsPolicy());
      folder.write('odd/a.cases.yaml', 'cases:\n  - nme: x\n');
      folder.write(
        'missing/a.cases.json',
        `{"policies": ["gone.yaml"], ${refundCases([1, 'allow']).slice(1)}`,
      );
      for (const name of ['one', 'two']) folder.write(`twins/${name}.policy.yaml`, refundsPolicy());
      folder.write('twins/a.cases.json', refundCases([20, 'allow']));
      const { code, out, err } = await policy(...args);
      expect([code, out]).toEqual([2, '']);
      expect(err).toContain(message);
      expect(err).not.toContain('    at ');
    },
  );
});
