import { GatewayError } from '../errors/gateway-error.ts';

const depthMax = 128;

/**
 * Writes canonical JSON (RFC 8785): keys sorted by UTF-16 code units, numbers as ECMAScript prints
 * them, no white space. Two values have the same text if and only if they are equal. Refuses values
 * that JSON cannot represent: lone surrogates, NaN, infinities, and non-JSON types. Omits
 * `undefined` members.
 */
export function canonicalJson(value: unknown): string {
  if (isInOrder(value, 0)) {
    const text = JSON.stringify(value);
    // ECMAScript escapes a lone surrogate as `\ud…`. If the text contains this sequence for another
    // reason, the slow path accepts the value.
    if (!text.includes('\\ud')) return text;
  }
  return write(value, 0);
}

/**
 * True if `JSON.stringify` already writes the canonical form, which is the case for most values.
 */
function isInOrder(value: unknown, depth: number): boolean {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return true;
    case 'number':
      return Number.isFinite(value);
    case 'object':
      if (value === null) return true;
      if (depth >= depthMax) return false;
      return Array.isArray(value)
        ? isListInOrder(value, depth + 1)
        : isObjectInOrder(value, depth + 1);
    default:
      return false;
  }
}

function isListInOrder(items: readonly unknown[], depth: number): boolean {
  for (const item of items) if (!isInOrder(item, depth)) return false;
  return true;
}

function isObjectInOrder(object: object, depth: number): boolean {
  // Other prototypes may define toJSON.
  if (Object.getPrototypeOf(object) !== Object.prototype) return false;
  let before = '';
  for (const name of Object.keys(object)) {
    if (name < before) return false;
    before = name;
    const member = (object as Record<string, unknown>)[name];
    if (member !== undefined && !isInOrder(member, depth)) return false;
  }
  return true;
}

function write(value: unknown, depth: number): string {
  if (depth > depthMax) throw unfit(`nested deeper than ${depthMax} levels`);
  switch (typeof value) {
    case 'string':
      return quote(value);
    case 'number':
      if (!Number.isFinite(value)) throw unfit('a number that is not finite');
      return Object.is(value, -0) ? '0' : String(value);
    case 'boolean':
      return value ? 'true' : 'false';
    case 'object':
      if (value === null) return 'null';
      return Array.isArray(value) ? writeArray(value, depth) : writeObject(value, depth);
    default:
      throw unfit(`a value of type ${typeof value}`);
  }
}

function writeArray(items: readonly unknown[], depth: number): string {
  // `map` skips holes in arrays; `Array.from` does not.
  return `[${Array.from(items, (item) => write(item, depth + 1)).join(',')}]`;
}

function writeObject(object: object, depth: number): string {
  let text = '';
  for (const name of sortedNames(object)) {
    const member = (object as Record<string, unknown>)[name];
    if (member === undefined) continue;
    text += `${text === '' ? '' : ','}${quote(name)}:${write(member, depth + 1)}`;
  }
  return `{${text}}`;
}

/**
 * Sorts only if necessary: most objects are already sorted, and checking is cheaper than sorting.
 */
function sortedNames(object: object): readonly string[] {
  const names = Object.keys(object);
  for (let index = 1; index < names.length; index++) {
    if ((names[index - 1] ?? '') > (names[index] ?? '')) return names.sort();
  }
  return names;
}

/** Printable ASCII that JSON writes unescaped. */
const plain = /^[\x20\x21\x23-\x5b\x5d-\x7e]*$/;

function quote(text: string): string {
  if (text.length < 100 && plain.test(text)) return `"${text}"`;
  if (!text.isWellFormed()) throw unfit('a lone surrogate');
  return JSON.stringify(text);
}

function unfit(what: string): GatewayError {
  return new GatewayError('args.schema_invalid', {
    message: `JSON cannot represent ${what} exactly.`,
  });
}
