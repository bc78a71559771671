import { isJsonObject, type JsonObject, type JsonValue } from '../base/json.ts';
import { GatewayError } from '../errors/gateway-error.ts';

/**
 * Collects arguments from path, query and body. Names that some upstream treats as equal count as
 * equal; a repeated name is refused as `args.ambiguous`.
 */
export class ArgumentSet {
  readonly #values: Record<string, JsonValue> = {};
  readonly #names = new NameSet();

  add(name: string, value: JsonValue): void {
    this.#names.add(name);
    setMember(this.#values, name, value);
  }

  get args(): JsonObject {
    return this.#values;
  }
}

/**
 * Refuses arguments in which an object, at any depth, has two names that some parser treats as
 * equal. Many JSON parsers ignore case and use the last of the two. The parser that read the
 * arguments has already limited the depth.
 */
export function refuseDuplicateNames(args: JsonObject): void {
  const names = new NameSet();
  for (const name of Object.keys(args)) {
    names.add(name);
    refuseDuplicateNamesWithin(args[name]);
  }
}

function refuseDuplicateNamesWithin(value: JsonValue | undefined): void {
  if (isJsonObject(value)) refuseDuplicateNames(value);
  else if (Array.isArray(value)) for (const item of value) refuseDuplicateNamesWithin(item);
}

/**
 * Folds names that case-insensitive parsers treat as equal. Converts to upper case first, because
 * this also maps characters such as the long s (ſ) to s.
 */
export function foldCase(name: string): string {
  return name.toUpperCase().toLowerCase();
}

// Characters that some parsers drop: C strings end at NUL, PHP trims, databases and editors skip
// invisible characters.
const invisible = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]|^\s|\s$/u;
const plainName = /^(?!__proto__$)[a-z0-9_-]+$/;

/** The names of one object, folded as the most lenient parser folds them. */
class NameSet {
  readonly #names = new Set<string>();
  /** Prefixes before `[` in names such as `items[0]`. */
  readonly #lists = new Set<string>();

  add(name: string): void {
    const folded = plainName.test(name) ? name : foldLoosely(name);
    const bracket = folded.indexOf('[', 1);
    const isTwin =
      this.#names.has(folded) ||
      (bracket < 0 ? this.#lists.has(folded) : this.#names.has(folded.slice(0, bracket)));
    if (isTwin) {
      throw new GatewayError('args.ambiguous', {
        message: `The argument ${JSON.stringify(name.slice(0, 100))} is given more than once; send it once.`,
      });
    }
    this.#names.add(folded);
    if (bracket > 0) this.#lists.add(folded.slice(0, bracket));
  }
}

function foldLoosely(name: string): string {
  if (invisible.test(name)) {
    throw new GatewayError('args.encoding_invalid', {
      message: `The argument name ${JSON.stringify(name.slice(0, 100))} contains invisible characters or outer white space; remove them.`,
    });
  }
  if (name === '__proto__') {
    // Code that merges this argument into an object would set the object's prototype, whose members
    // would then appear as arguments.
    throw new GatewayError('args.schema_invalid', {
      message: 'An argument cannot be named __proto__; rename it.',
    });
  }
  // PHP reads dots and spaces in form names as underscores.
  return foldCase(name.normalize('NFKC')).replaceAll(/[. ]/g, '_');
}

/** Sets an own member, because assignment to `__proto__` would set the prototype. */
export function setMember(object: Record<string, JsonValue>, name: string, value: JsonValue): void {
  if (name !== '__proto__') {
    object[name] = value;
    return;
  }
  Object.defineProperty(object, name, {
    value,
    enumerable: true,
    configurable: true,
    writable: true,
  });
}

/**
 * Returns an argument as text for a path, a query or a form; undefined for arrays, objects and
 * null.
 */
export function argumentText(value: JsonValue | undefined): string | undefined {
  if (typeof value === 'string') return value;
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : undefined;
}
