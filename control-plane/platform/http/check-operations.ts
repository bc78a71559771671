import type { AnyOperation } from '../../../shared/contract/base/operation.ts';
import { namesOf } from './validate.ts';

/**
 * Checks the operations at start. Throws for a duplicate id or path, a keyed operation without a
 * permission, and path parameters without a schema.
 */
export function checkOperations(operations: readonly AnyOperation[]): void {
  const problems = operations.flatMap(problemsOf);
  for (const [what, nameOf] of [
    ['id', ({ id }: AnyOperation) => id],
    ['place', ({ method, path }: AnyOperation) => `${method} ${path.replaceAll(/\{\w+\}/g, '{}')}`],
  ] as const) {
    for (const [name, same] of Map.groupBy(operations, nameOf)) {
      if (same.length > 1) problems.push(`the ${what} ${name} is declared ${same.length} times`);
    }
  }
  if (problems.length > 0) throw new Error(`Malformed operations: ${problems.join('; ')}`);
}

function problemsOf(operation: AnyOperation): string[] {
  const { id, path, auth, permission, params } = operation;
  const named = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1] ?? '').sort();
  const declared = params === undefined ? [] : [...namesOf(params)].sort();
  const problems: string[] = [];
  const keyed = auth === 'bearer' || auth === 'gateway';
  if (!/^(\/([\w.-]+|\{\w+\}))+$/.test(path)) problems.push(`${id}: ${path} is not a path`);
  if (keyed && permission === undefined) problems.push(`${id}: names no permission`);
  if (!keyed && permission !== undefined) problems.push(`${id}: its permission is never checked`);
  if (named.join() !== declared.join()) problems.push(`${id}: path and params do not match`);
  return problems;
}
