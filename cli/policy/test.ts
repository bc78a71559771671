import { dirname, isAbsolute, join } from 'node:path';
import { SettingsError } from '../../shared/base/settings.ts';
import { ruleLabel } from '../../shared/policy/engine/rule.ts';
import type { CaseFile } from '../../shared/policy-cases/policy-case.ts';
import { readCaseFile } from '../../shared/policy-cases/read-cases.ts';
import { type PolicyFile, readPolicyFile } from '../../shared/policy-cases/read-policy.ts';
import { type CaseResult, runCases } from '../../shared/policy-cases/run-cases.ts';
import { counted, printJson, printLines } from '../support/terminal.ts';
import { findFiles, policiesInSameFolder, readFile, refuseDuplicateIds } from './policy-files.ts';

interface Located extends CaseResult {
  readonly line: number;
}

interface FileResult {
  readonly file: string;
  readonly policies: readonly PolicyFile[];
  readonly cases: readonly Located[];
}

/** `sallyport policy test`. Exit code 1 if a case fails. */
export async function test(
  given: readonly string[],
  { json }: { readonly json?: boolean },
): Promise<number> {
  const paths = findFiles(given).cases;
  if (paths.length === 0) {
    throw new SettingsError('Found no case file. Name case files *.cases.yaml or *.cases.json.');
  }
  const known = new Map<string, PolicyFile>();
  const files = paths.map((path) => runFile(readCaseFile(readFile(path)), known));
  const all = files.flatMap(({ cases }) => cases);
  const failed = all.filter((one) => !one.passed).length;
  const counts = { passed: all.length - failed, failed };
  const unmatched = rulesWithoutCase(files);
  if (json === true) {
    const shown = files.map(({ policies, ...file }) => ({
      ...file,
      policies: policies.map((policy) => policy.file),
    }));
    printJson({ files: shown, counts, rules_without_case: unmatched });
  } else {
    printLines([
      ...files.flatMap(fileLines),
      ...unmatched.map(({ file, line, rule }) => `${file}:${line}: no case matches ${rule}`),
      `${counted(counts.passed, 'case')} passed, ${failed} failed`,
    ]);
  }
  return failed > 0 ? 1 : 0;
}

function runFile(caseFile: CaseFile, known: Map<string, PolicyFile>): FileResult {
  const policies = policyPaths(caseFile).map((path) => {
    const policy = known.get(path) ?? readPolicyFile(readFile(path));
    known.set(path, policy);
    return policy;
  });
  refuseDuplicateIds(policies);
  const results = runCases(
    caseFile.cases,
    policies.map(({ definition }) => definition),
  );
  const cases = results.map((result, index) => ({ ...result, line: caseFile.lines[index] ?? 1 }));
  return { file: caseFile.file, policies, cases };
}

function policyPaths({ file, policies }: CaseFile): readonly string[] {
  const names = policies ?? policiesInSameFolder(file);
  if (names.length === 0) {
    throw new SettingsError(
      `${file}: its folder has no policy; list policy files under \`policies\`.`,
    );
  }
  if (policies === undefined) return names;
  return names.map((name) => (isAbsolute(name) ? name : join(dirname(file), name)));
}

/** Rules that no case matches, so that no test would fail if they were removed. */
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
    '      set the usage in the context of the case: usage: { calls_1h: 3, sum_24h: { amount: 150 } }',
  ];
}

function words(value: string | readonly string[]): string {
  if (typeof value === 'string') return value;
  return value.length === 0 ? 'none' : value.join(', ');
}

function decidedBy({ actual: { decision, reason_code, matched_rules, observed } }: CaseResult) {
  const observedText = observed.length === 0 ? '' : `; only observed: ${observed.join(', ')}`;
  return `${decision} ${reason_code}; matched: ${words(matched_rules)}${observedText}`;
}
