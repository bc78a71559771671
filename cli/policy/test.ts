import { dirname, isAbsolute, join } from 'node:path';
import { parseArgs } from 'node:util';
import { SettingsError } from '../../shared/base/settings.ts';
import { ruleLabel } from '../../shared/policy/engine/rule.ts';
import type { CaseFile } from '../../shared/policy-cases/policy-case.ts';
import { readCaseFile } from '../../shared/policy-cases/read-cases.ts';
import { type PolicyFile, readPolicyFile } from '../../shared/policy-cases/read-policy.ts';
import { type CaseResult, runCases } from '../../shared/policy-cases/run-cases.ts';
import { findFiles, policiesBeside, readFile, refuseTwins } from './files.ts';
import { count, say, sayJson } from './say.ts';

interface Located extends CaseResult {
  readonly line: number;
}

interface FileResult {
  readonly file: string;
  readonly policies: readonly PolicyFile[];
  readonly cases: readonly Located[];
}

/** `sallyport policy test`: exit code 1 when a case fails. */
export async function test(args: string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args,
    options: { json: { type: 'boolean' } },
    allowPositionals: true,
  });
  const paths = findFiles(positionals).cases;
  if (paths.length === 0) {
    throw new SettingsError('There are no cases to run: name files *.cases.yaml or *.cases.json.');
  }
  const known = new Map<string, PolicyFile>();
  const files = paths.map((path) => runFile(readCaseFile(readFile(path)), known));
  const all = files.flatMap(({ cases }) => cases);
  const failed = all.filter((one) => !one.passed).length;
  const counts = { passed: all.length - failed, failed };
  const unmatched = rulesWithoutCase(files);
  if (values.json === true) {
    const shown = files.map(({ policies, ...file }) => ({
      ...file,
      policies: policies.map((policy) => policy.file),
    }));
    sayJson({ files: shown, counts, rules_without_case: unmatched });
  } else {
    say([
      ...files.flatMap(fileLines),
      ...unmatched.map(({ file, line, rule }) => `${file}:${line}: no case matches ${rule}`),
      `${count(counts.passed, 'case')} passed, ${failed} failed`,
    ]);
  }
  return failed > 0 ? 1 : 0;
}

function runFile(given: CaseFile, known: Map<string, PolicyFile>): FileResult {
  const policies = policyPaths(given).map((path) => {
    const policy = known.get(path) ?? readPolicyFile(readFile(path));
    known.set(path, policy);
    return policy;
  });
  refuseTwins(policies);
  const results = runCases(
    given.cases,
    policies.map(({ definition }) => definition),
  );
  const cases = results.map((result, index) => ({ ...result, line: given.lines[index] ?? 1 }));
  return { file: given.file, policies, cases };
}

function policyPaths({ file, policies }: CaseFile): readonly string[] {
  const beside = policies === undefined ? policiesBeside(file) : policies;
  if (beside.length === 0) {
    throw new SettingsError(`${file}: no policy is beside it; name its files under policies.`);
  }
  if (policies === undefined) return beside;
  return beside.map((name) => (isAbsolute(name) ? name : join(dirname(file), name)));
}

/** Rules that no case needs: nothing would tell if they were gone. */
function rulesWithoutCase(files: readonly FileResult[]) {
  const results = files.flatMap(({ cases }) => cases);
  const matched = new Set(
    results.flatMap(({ actual }) => [...actual.matched_rules, ...actual.observed]),
  );
  const policies = new Set(files.flatMap((file) => file.policies));
  return [...policies].flatMap(({ file, definition, lineOf }) =>
    definition.rules.flatMap((rule, index) => {
      const label = ruleLabel(definition, rule);
      return matched.has(label) ? [] : [{ file, line: lineOf(`rules[${index}]`), rule: label }];
    }),
  );
}

function fileLines({ file, cases }: FileResult): readonly string[] {
  return [
    file,
    ...cases.flatMap((one) => [
      `  ${one.passed ? '✓' : '✗'} ${one.name}${one.passed ? '' : `  (${file}:${one.line})`}`,
      ...one.differences.map(
        ({ field, expected, actual }) =>
          `      ${field}: expected ${words(expected)}, got ${words(actual)}`,
      ),
      ...(one.passed ? [] : [`      ${decidedBy(one)}`, ...hint(one)]),
    ]),
  ];
}

function hint({ actual }: CaseResult): readonly string[] {
  if (actual.reason_code !== 'usage.unknown') return [];
  return [
    '      say what was done before, in a context: usage: { calls_1h: 3, sum_24h: { amount: 150 } }',
  ];
}

function words(value: string | readonly string[]): string {
  if (typeof value === 'string') return value;
  return value.length === 0 ? 'none' : value.join(', ');
}

function decidedBy({ actual: { decision, reason_code, matched_rules, observed } }: CaseResult) {
  const watched = observed.length === 0 ? '' : `; only observed: ${observed.join(', ')}`;
  return `${decision} ${reason_code}; matched: ${words(matched_rules)}${watched}`;
}
