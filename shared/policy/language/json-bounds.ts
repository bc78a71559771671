import type { JsonValue } from '../../base/json.ts';
import { GatewayError } from '../../errors/gateway-error.ts';

const depthMax = 32;
const stringLengthMax = 8192;
const sizeMax = 1024 * 1024;

/** Throws `policy.invalid`. Message and details name the path; the message states the problem. */
export function refuse(path: string, problem: string): never {
  const message = `${path || 'policy'}: ${problem}`;
  throw new GatewayError('policy.invalid', { message, details: { path } });
}

/** Formats a value for an error message: shortened, and arrays and objects by kind only. */
export function show(value: unknown): string {
  if (Array.isArray(value)) return 'an array';
  if (typeof value === 'object' && value !== null) return 'an object';
  if (typeof value === 'string') {
    return JSON.stringify(value.length > 60 ? `${value.slice(0, 60).toWellFormed()}…` : value);
  }
  return String(value);
}

/**
 * Returns a deep copy of the input after checking that it is unambiguous, bounded JSON: finite
 * numbers, well-formed strings, plain objects, limited depth and size. The work is bounded for
 * every input.
 */
export function snapshotJson(input: unknown): JsonValue {
  const budget = { left: sizeMax };
  check(input, '', 0, budget);
  return JSON.parse(JSON.stringify(input));
}

/** Parses the text of a policy. Longer text than a policy may have is refused before parsing. */
export function parseJson(text: string): unknown {
  if (text.length > sizeMax) refuse('', `longer than ${sizeMax} characters`);
  try {
    return JSON.parse(text);
  } catch {
    return refuse('', 'is a text, but not valid JSON');
  }
}

function check(value: unknown, path: string, depth: number, budget: { left: number }): void {
  budget.left -= typeof value === 'string' ? value.length + 2 : 2;
  if (budget.left < 0) refuse('', `larger than ${sizeMax} characters`);
  if (depth > depthMax) refuse(shorten(path), `nested deeper than ${depthMax} levels`);
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index += 1) {
      check(value[index], `${path}[${index}]`, depth + 1, budget);
    }
  } else if (isPlainObject(value)) {
    checkMembers(value, path, depth, budget);
  } else {
    checkPrimitive(value, path);
  }
}

function checkMembers(
  object: Readonly<Record<string, unknown>>,
  path: string,
  depth: number,
  budget: { left: number },
): void {
  for (const name of Object.keys(object)) {
    budget.left -= name.length + 4;
    if (!name.isWellFormed()) refuse(path, 'a key contains half of a surrogate pair');
    const member = object[name];
    if (member !== undefined) check(member, joinPath(path, name), depth + 1, budget);
  }
}

function checkPrimitive(value: unknown, path: string): void {
  if (value === null || typeof value === 'boolean') return;
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) refuse(path, 'a number that is not finite');
    if (Number.isInteger(value) && !Number.isSafeInteger(value)) {
      refuse(path, 'a whole number beyond 2^53 cannot be stored exactly; send it as a string');
    }
    return;
  }
  if (typeof value !== 'string') refuse(path, 'not a JSON value');
  if (value.length > stringLengthMax) {
    refuse(path, `a string longer than ${stringLengthMax} characters`);
  }
  if (!value.isWellFormed()) refuse(path, 'a string that contains half of a surrogate pair');
}

function isPlainObject(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

/** Returns `path.name`; writes a name that is not an identifier in brackets. */
export function joinPath(path: string, name: string): string {
  if (!/^[A-Za-z_$][\w$]{0,59}$/.test(name)) return `${path}[${show(name)}]`;
  return path === '' ? name : `${path}.${name}`;
}

function shorten(path: string): string {
  return path.length > 80 ? `${path.slice(0, 80).toWellFormed()}…` : path;
}
