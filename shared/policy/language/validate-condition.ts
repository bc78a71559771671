import { isJsonObject, type JsonValue } from '../../base/json.ts';
import { operators } from './definition.ts';
import { policyLimits as limits } from './definition-limits.ts';
import { joinPath, refuse, show } from './json-bounds.ts';
import { compilePattern } from './pattern.ts';
import { readObject, readOneOf, readText } from './shape.ts';
import { usagePathProblem } from './usage-path.ts';

const conditionKeys = ['path', 'operator', 'value'];
const refForm = 'an object must be { "$ref": "<dotted path>" } and nothing else';

/** The remaining budget for a policy's patterns, in instructions. */
export interface PatternBudget {
  left: number;
}

/** Throws `policy.invalid` unless the value is a PolicyCondition that compiles. */
export function checkCondition(condition: JsonValue, path: string, budget: PatternBudget): void {
  const fields = readObject(condition, path, conditionKeys);
  checkPath(fields.path, joinPath(path, 'path'));
  const operator = readOneOf(fields.operator, joinPath(path, 'operator'), operators);
  const { value } = fields;
  const valuePath = joinPath(path, 'value');
  if (value === undefined) refuse(valuePath, 'required: a literal or { "$ref": "<dotted path>" }');
  if (operator === 'matches') checkPattern(value, valuePath, budget);
  else if (isJsonObject(value)) checkRef(value, valuePath);
  else if (Array.isArray(value)) checkElements(value, valuePath);
  else if (operator === 'in' || operator === 'not_in') {
    refuse(valuePath, `${show(value)} is not an array; ${operator} requires one`);
  }
}

function checkPath(value: JsonValue | undefined, path: string): void {
  const text = readText(value, path, limits.pathLength);
  const segments = text.split('.');
  if (segments.some((segment) => segment.trim() === '')) {
    refuse(path, `${show(text)} is not a dotted path such as tool.name`);
  }
  if (segments.length > limits.pathSegments) {
    refuse(path, `more than ${limits.pathSegments} segments`);
  }
  const problem = usagePathProblem(text);
  if (problem !== undefined) refuse(path, problem);
}

function checkRef(value: JsonValue, path: string): void {
  if (!isJsonObject(value) || Object.keys(value).join() !== '$ref') refuse(path, refForm);
  checkPath(value.$ref, joinPath(path, '$ref'));
}

/** Refuses objects in a list, because they would look like a `$ref` that is never resolved. */
function checkElements(list: readonly JsonValue[], path: string): void {
  if (list.length > limits.listEntries) refuse(path, `more than ${limits.listEntries} values`);
  list.forEach((item, index) => {
    if (isJsonObject(item)) refuse(`${path}[${index}]`, 'a list must not contain an object');
    if (Array.isArray(item)) checkElements(item, `${path}[${index}]`);
  });
}

/**
 * Patterns must be literals, because an agent that could choose a pattern could choose whether the
 * rule matches.
 */
function checkPattern(value: JsonValue, path: string, budget: PatternBudget): void {
  if (typeof value !== 'string') {
    refuse(path, `${show(value)} is not a regular expression given as a string`);
  }
  budget.left -= patternSize(readText(value, path, limits.patternLength), path);
  if (budget.left < 0)
    refuse(path, 'the patterns of this policy together are too large; simplify or split them');
}

function patternSize(pattern: string, path: string): number {
  try {
    return compilePattern(pattern).size;
  } catch (error) {
    const problem = error instanceof Error ? error.message : 'it does not compile';
    return refuse(
      path,
      `${show(pattern)} is not a usable regular expression (RE2 syntax): ${problem}`,
    );
  }
}
