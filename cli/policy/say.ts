import { visible } from '../table.ts';

/** Prints lines; text of policies and of the server may not control the terminal. */
export function say(lines: readonly string[]): void {
  console.log(lines.map(visible).join('\n'));
}

export function sayJson(value: unknown): void {
  console.log(JSON.stringify(value, null, 2));
}

/** `1 policy`, `2 policies`. */
export function count(number: number, one: string, many = `${one}s`): string {
  return `${number} ${number === 1 ? one : many}`;
}
