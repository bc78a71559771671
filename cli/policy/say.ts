import { visible } from '../table.ts';

/** Prints lines; text of policies and of the server may not control the terminal. */
export function say(lines: readonly string[]): void {
  console.log(lines.map(visible).join('\n'));
}

export function sayJson(value: unknown): void {
  console.log(JSON.stringify(value, null, 2).replaceAll(/[^\n\P{C}]/gu, escaped));
}

/** JSON leaves some characters as they are that control a terminal. */
function escaped(character: string): string {
  return Array.from({ length: character.length }, (_, at) => {
    return `\\u${character.charCodeAt(at).toString(16).padStart(4, '0')}`;
  }).join('');
}

/** `1 policy`, `2 policies`. */
export function count(number: number, one: string, many = `${one}s`): string {
  return `${number} ${number === 1 ? one : many}`;
}
