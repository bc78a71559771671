import { isJsonObject, type JsonObject, type JsonValue } from '../base/json.ts';
import { GatewayError } from '../errors/gateway-error.ts';

/**
 * Puts arguments from several places together. Names that some upstream would take for one count
 * as the same; any name given twice is `args.ambiguous`.
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
 * Refuses arguments, at any depth, of which two names are the same to some reader: JSON readers
 * that ignore case are common, and take the last of the two. The depth is bounded by whoever read
 * the arguments.
 */
export function refuseTwins(args: JsonObject): void {
  const names = new NameSet();
  for (const name of Object.keys(args)) {
    names.add(name);
    refuseTwinsWithin(args[name]);
  }
}

function refuseTwinsWithin(value: JsonValue | undefined): void {
  if (isJsonObject(value)) refuseTwins(value);
  else if (Array.isArray(value)) for (const item of value) refuseTwinsWithin(item);
}

/**
 * One spelling for names that case-insensitive readers take for the same. Upper case first: it
 * also brings together what has an upper case only, as the long s does with s.
 */
export function foldCase(name: string): string {
  return name.toUpperCase().toLowerCase();
}

// What no name needs, and what some readers drop: a C reader ends at NUL, PHP trims, databases and
// editors skip what cannot be seen.
const invisible = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]|^\s|\s$/u;
const plainName = /^(?!__proto__$)[a-z0-9_-]+$/;

/** The names of one object, each in the one spelling that the loosest reader would give it. */
class NameSet {
  readonly #names = new Set<string>();
  /** What stands before `[` in names such as `items[0]`. */
  readonly #lists = new Set<string>();

  add(name: string): void {
    const folded = plainName.test(name) ? name : foldLoosely(name);
    const bracket = folded.indexOf('[', 1);
    const isTwin =
      this.#names.has(folded) ||
      (bracket < 0 ? this.#lists.has(folded) : this.#names.has(folded.slice(0, bracket)));
    if (isTwin) {
      throw new GatewayError('args.ambiguous', {
        message: `The argument ${JSON.stringify(name.slice(0, 100))} is given more than once.`,
      });
    }
    this.#names.add(folded);
    if (bracket > 0) this.#lists.add(folded.slice(0, bracket));
  }
}

function foldLoosely(name: string): string {
  if (invisible.test(name)) {
    throw new GatewayError('args.encoding_invalid', {
      message: `The name of an argument, ${JSON.stringify(name.slice(0, 100))}, holds what cannot be seen.`,
    });
  }
  if (name === '__proto__') {
    // Merged into an object it becomes that object's prototype, and its members seem to be there.
    throw new GatewayError('args.schema_invalid', {
      message: 'An argument cannot be called __proto__.',
    });
  }
  // PHP reads dots and spaces in the names of a form as underscores.
  return foldCase(name.normalize('NFKC')).replaceAll(/[. ]/g, '_');
}

/** Sets an own member; plain assignment to `__proto__` would set the prototype instead. */
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

/** An argument as text for a path, a query or a form; undefined for what has no plain text. */
export function argumentText(value: JsonValue | undefined): string | undefined {
  if (typeof value === 'string') return value;
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : undefined;
}
