import { ruleLabel } from '../../shared/policy/engine/rule.ts';
import type { PolicyDefinition } from '../../shared/policy/language/definition.ts';
import { lintPolicies } from '../../shared/policy/lint/lint.ts';
import type { LintFinding, LintSeverity } from '../../shared/policy/lint/lint-finding.ts';
import type { PolicyFile } from '../../shared/policy-cases/read-policy.ts';
import type { SourceError } from '../../shared/policy-cases/source.ts';

/** A problem in a file, or in a published policy together with a file. */
export interface FileFinding {
  readonly kind: LintFinding['kind'] | 'invalid';
  readonly severity: LintSeverity;
  /** Undefined for a published policy. */
  readonly file?: string | undefined;
  readonly line?: number | undefined;
  readonly policy?: string | undefined;
  readonly rule?: string | undefined;
  readonly path?: string | undefined;
  readonly message: string;
  readonly fix?: string | undefined;
  readonly other?: string | undefined;
}

/** Lints files together with the published policies; returns findings that concern a file. */
export function lintFiles(
  files: readonly PolicyFile[],
  published: readonly PolicyDefinition[] = [],
): readonly FileFinding[] {
  const byId = new Map(files.map((file) => [file.definition.id, file]));
  const others = published.filter(({ id }) => !byId.has(id));
  const definitions = files.map(({ definition }) => definition);
  const policyOf = new Map(
    [...definitions, ...others].flatMap((definition) => [
      [definition.id, definition.id],
      ...definition.rules.map((rule) => [ruleLabel(definition, rule), definition.id] as const),
    ]),
  );
  return lintPolicies([...definitions, ...others]).flatMap((found) => {
    const policy = policyOf.get(found.rule) ?? found.rule;
    const concerns = byId.has(policy) || byId.has(policyOf.get(found.other ?? '') ?? '');
    return concerns ? [fileFinding(found, policy, byId.get(policy))] : [];
  });
}

function fileFinding(
  { kind, severity, rule, path, message, fix, other }: LintFinding,
  policy: string,
  source: PolicyFile | undefined,
): FileFinding {
  return {
    kind,
    severity,
    ...(source === undefined ? {} : { file: source.file, line: source.lineOf(path) }),
    policy,
    rule,
    path,
    message,
    fix,
    ...(other === undefined ? {} : { other }),
  };
}

export function invalidFile({ file, line, problem }: SourceError): FileFinding {
  return { kind: 'invalid', severity: 'error', file, line, message: problem };
}

/** Lines that begin with `file:line`, which editors and terminals link. */
export function findingLines(finding: FileFinding): readonly string[] {
  const { kind, severity, file, line, policy, rule, message, fix } = finding;
  const where = file === undefined ? `published ${policy}` : `${file}:${line}`;
  const what = [`${severity} ${kind}`, rule, message].filter((part) => part !== undefined);
  return [`${where}: ${what.join(': ')}`, ...(fix === undefined ? [] : [`    ${fix}`])];
}

export function countBySeverity(findings: readonly FileFinding[]) {
  const counts = { error: 0, warning: 0, info: 0 };
  for (const { severity } of findings) counts[severity] += 1;
  return counts;
}
