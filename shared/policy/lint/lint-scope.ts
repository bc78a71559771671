import type { PolicyDefinition } from '../language/definition.ts';
import { isToolGlob } from '../language/scope.ts';
import type { Clause } from './clause.ts';
import type { LintFinding } from './lint-finding.ts';
import type { RuleReading } from './lint-subject.ts';

/** Finds entries of `applies_to` without effect. */
export function lintScope(
  definition: PolicyDefinition,
  rules: readonly RuleReading[],
): readonly LintFinding[] {
  const { applies_to } = definition;
  if (applies_to === undefined) return [];
  const { tools, agents } = applies_to;
  if (!tools?.length && !agents?.length) {
    return [unused(definition, 'applies_to', 'The list is empty, so the policy applies to all.')];
  }
  const clauses = rules.flatMap((rule) => rule.clauses);
  return [
    ...unusedEntries(definition, { key: 'tools', at: 'tool.name', entries: tools ?? [], clauses }),
    ...unusedEntries(definition, { key: 'agents', at: 'agent.id', entries: agents ?? [], clauses }),
  ];
}

interface ScopeList {
  readonly key: 'tools' | 'agents';
  readonly at: string;
  readonly entries: readonly string[];
  readonly clauses: readonly Clause[];
}

function unusedEntries(
  definition: PolicyDefinition,
  { key, at, entries, clauses }: ScopeList,
): readonly LintFinding[] {
  return entries.flatMap((entry, index) => {
    if (isToolGlob(entry) || canMatch(clauses, at, entry)) return [];
    const reason = `No rule of the policy can match ${entry}.`;
    return [unused(definition, `applies_to.${key}[${index}]`, reason)];
  });
}

function canMatch(clauses: readonly Clause[], path: string, value: string): boolean {
  return clauses.some((clause) =>
    clause.every((test) => test.path !== path || (test.holdsFor?.(value) ?? true)),
  );
}

function unused(definition: PolicyDefinition, path: string, message: string): LintFinding {
  return {
    kind: 'unused_applies_to',
    severity: 'warning',
    policy: definition.id,
    rule: definition.id,
    path,
    message,
    fix: 'Remove it, or add the intended rule.',
  };
}
