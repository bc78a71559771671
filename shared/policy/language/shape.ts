import { isJsonObject, type JsonObject, type JsonValue } from '../../base/json.ts';
import { joinPath, refuse, show } from './json-bounds.ts';

/** Readers of single fields. Each returns the value or throws `policy.invalid` with the path. */

/**
 * Reads an object that may have only the keys in `known`. Unknown keys are refused because they may
 * be misspelt.
 */
export function readObject(
  value: JsonValue | undefined,
  path: string,
  known: readonly string[],
): JsonObject {
  if (value === undefined) refuse(path, `required: an object with ${known.join(', ')}`);
  if (!isJsonObject(value)) {
    refuse(path, `${show(value)} is not an object with ${known.join(', ')}`);
  }
  for (const name of Object.keys(value)) {
    if (known.includes(name)) continue;
    refuse(joinPath(path, name), `unknown key; known here: ${known.join(', ')}`);
  }
  return value;
}

export function readList(
  value: JsonValue | undefined,
  path: string,
  { max, of }: { readonly max: number; readonly of: string },
): readonly JsonValue[] {
  if (value === undefined) refuse(path, `required: an array of ${of}`);
  if (!Array.isArray(value)) refuse(path, `${show(value)} is not an array of ${of}`);
  if (value.length > max) refuse(path, `more than ${max} ${of}`);
  return value;
}

const controlCharacter = /\p{Cc}/u;

/** Reads a name that is shown on one line: not blank, bounded, without control characters. */
export function readLabel(value: JsonValue | undefined, path: string, lengthMax: number): string {
  const label = readText(value, path, lengthMax);
  if (label.trim() === '') refuse(path, 'must not be blank');
  if (controlCharacter.test(label)) refuse(path, 'contains a control character; remove it');
  return label;
}

export function readText(value: JsonValue | undefined, path: string, lengthMax: number): string {
  if (value === undefined) refuse(path, 'required: a string');
  if (typeof value !== 'string') refuse(path, `${show(value)} is not a string`);
  if (value.length > lengthMax) refuse(path, `longer than ${lengthMax} characters`);
  return value;
}

export function readOneOf<Word extends string>(
  value: JsonValue | undefined,
  path: string,
  words: readonly Word[],
): Word {
  const word = words.find((known) => known === value);
  if (word !== undefined) return word;
  if (value === undefined) return refuse(path, `required: one of ${words.join(', ')}`);
  return refuse(path, `${show(value)} is not one of ${words.join(', ')}`);
}

export function readInteger(value: JsonValue, path: string, max: number): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 1 && value <= max) {
    return value;
  }
  return refuse(path, `${show(value)} is not an integer from 1 to ${max}`);
}
