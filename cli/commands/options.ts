import { InvalidArgumentError, Option } from '@commander-js/extra-typings';
import milliseconds, { type StringValue } from 'ms';

// Options that several commands declare.

export const url = new Option(
  '--url <url>',
  'address of the control plane (SALLYPORT_CONTROL_PLANE_URL)',
);

/** An API key is never an argument, because other users of the machine can read arguments. */
export const keyFile = new Option(
  '--key-file <file>',
  'file with your API key (SALLYPORT_API_KEY or SALLYPORT_API_KEY_FILE)',
);

export const json = new Option('--json', 'print JSON');

export const from = new Option('--from <time>', 'earliest time, RFC 3339');

export const to = new Option('--to <time>', 'latest time, RFC 3339');

export const output = new Option(
  '-o, --output <file>',
  'write to this file, not to standard output',
);

/** Returns a parser for whole numbers from `min` to `max`. */
export function wholeNumber(min: number, max: number): (text: string) => number {
  return (text) => {
    const number = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
    if (number >= min && number <= max) return number;
    throw new InvalidArgumentError(`Use a whole number from ${min} to ${max}.`);
  };
}

/**
 * Stricter than `ms`, which also accepts numbers without a unit, negative numbers, and units such
 * as `1y`.
 */
const durationForm = /^\d{1,6}(?:\.\d{1,3})?(?:ms|s|m|h|d)$/;

/** Parses `500ms`, `90s`, `1.5h` or `7d` to milliseconds. */
export function duration(text: string): number {
  const ms = durationForm.test(text) ? Math.round(milliseconds(text as StringValue)) : 0;
  if (ms > 0) return ms;
  throw new InvalidArgumentError('Use a number and a unit (ms, s, m, h or d), such as 90s or 7d.');
}

/** The names of a string union. A missing name in `record` is a compile error. */
export function namesOf<Name extends string>(record: Readonly<Record<Name, true>>): Name[] {
  return Object.keys(record) as Name[];
}

/**
 * Wraps a command's function as an action: the process exits with the code that the function
 * returns.
 */
export function exitWith<Args extends readonly unknown[]>(
  work: (...args: Args) => Promise<number>,
): (...args: Args) => Promise<void> {
  return async (...args) => {
    process.exitCode = await work(...args);
  };
}

/** Text for the end of a command's help. */
export function examples(...lines: readonly string[]): string {
  return ['\nExamples:', ...lines.map((line) => `  $ ${line}`)].join('\n');
}
