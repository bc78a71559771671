import { GatewayError } from '../errors.ts';
import type { JsonObject, JsonValue } from '../json.ts';

/**
 * Puts arguments from several places together. Two names that differ in case only count as the
 * same, because many upstreams read them so; any name given twice is `args.ambiguous`.
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

/** Refuses arguments of which two names differ in case only. */
export function refuseTwins(args: JsonObject): void {
  const names = new NameSet();
  for (const name of Object.keys(args)) names.add(name);
}

/**
 * Refuses `_method`: frameworks take it, in a query or a form, for the method that a POST stands
 * for, which would be another call than the one that was judged.
 */
export function refuseMethodOverride(names: Iterable<string>): void {
  for (const name of names) {
    if (name.toLowerCase() !== '_method') continue;
    throw new GatewayError('proxy.method_refused', {
      message: 'The argument _method would change the method; send the method itself.',
    });
  }
}

/**
 * One spelling for names that case-insensitive readers take for the same. Upper case first: it
 * also brings together what has an upper case only, as the long s does with s.
 */
export function foldCase(name: string): string {
  return name.toUpperCase().toLowerCase();
}

class NameSet {
  readonly #seen = new Set<string>();

  add(name: string): void {
    const folded = foldCase(name);
    if (this.#seen.has(folded)) {
      throw new GatewayError('args.ambiguous', {
        message: `The argument ${JSON.stringify(name.slice(0, 100))} is given more than once.`,
      });
    }
    this.#seen.add(folded);
  }
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
