import { add, hexAt, numberAt, octalAt } from './escaped-numbers.ts';
import { entityAt } from './html-entity.ts';

const percent = 0x25;
const ampersand = 0x26;
const plus = 0x2b;
const backslash = 0x5c;
const lowerU = 0x75;
const lowerX = 0x78;
const space = 0x20;
const openBrace = 0x7b;
const closeBrace = 0x7d;
const braceDigitsMax = 8;
const marks = [percent, backslash, plus, ampersand];
// JSON nested in JSON strings: each level doubles the backslashes.
const backslashesMax = 4;
// `%252525`: a percent sign encoded three times.
const percentLevelsMax = 3;

/**
 * A variant of a character (as written, or in the other case): its UTF-8 bytes, and the UTF-16
 * units and the code point that escape sequences use.
 */
interface Form {
  readonly utf8: Buffer;
  readonly utf16: readonly number[];
  readonly codePoint: number;
}

/** A text to search for: the variants of each of its characters. */
export interface EncodedForms {
  readonly characters: readonly (readonly Form[])[];
  /**
   * For each byte, whether an encoded text can begin with this byte: `inAnyCase` (yes),
   * `ifSecondFits` (only if the second byte fits) or `never`.
   */
  readonly starts: Uint8Array;
  /** For each byte: whether it can come second, after a first character of one byte. */
  readonly seconds: Uint8Array;
}

const never = 0;
const inAnyCase = 1;
const ifSecondFits = 2;

/**
 * Prepares a text for the search. `anyCase` means that its characters match in upper and lower
 * case.
 */
export function encodedForms(text: string, anyCase: boolean): EncodedForms {
  const characters = Array.from(text, (one) => formsOf(one, anyCase));
  const [first, second] = characters;
  return {
    characters,
    starts: startsOf(first, ifSecondFits),
    seconds: startsOf(second, inAnyCase),
  };
}

function startsOf(forms: readonly Form[] | undefined, alone: number): Uint8Array {
  const starts = new Uint8Array(256);
  if (forms === undefined) return starts.fill(inAnyCase);
  for (const { utf8, codePoint } of forms) {
    starts[utf8[0] ?? 0] = utf8.length === 1 ? alone : inAnyCase;
    if (codePoint === space) starts[plus] = inAnyCase;
  }
  for (const mark of [percent, backslash, ampersand]) starts[mark] = inAnyCase;
  return starts;
}

/** A fast check: the first one or two bytes rule out most positions. */
function mayStart({ starts, seconds }: EncodedForms, bytes: Buffer, at: number): boolean {
  const start = starts[bytes[at] ?? 0] ?? never;
  if (start !== ifSecondFits) return start !== never;
  const second = bytes[at + 1];
  return second === undefined || seconds[second] !== never;
}

function formsOf(character: string, anyCase: boolean): readonly Form[] {
  const all = anyCase
    ? new Set([character, character.toUpperCase(), character.toLowerCase()])
    : [character];
  // Drops a variant of several characters, such as `SS` for `ß`.
  return [...all].filter((text) => Array.from(text).length === 1).map(formOf);
}

function formOf(text: string): Form {
  return {
    utf8: Buffer.from(text),
    utf16: Array.from({ length: text.length }, (_, index) => text.charCodeAt(index)),
    codePoint: text.codePointAt(0) ?? 0,
  };
}

/** True if the bytes contain the text in any encoding. */
export function containsEncoded(bytes: Buffer, spelling: EncodedForms): boolean {
  for (let start = 0; start < bytes.length; start++) {
    if (mayStart(spelling, bytes, start) && matchAt(bytes, start, spelling.characters) === 'whole')
      return true;
  }
  return false;
}

/**
 * Returns how many bytes at the end could be the beginning of the encoded text. Searches from
 * `from`.
 */
export function openEncodedBytes(bytes: Buffer, spelling: EncodedForms, from: number): number {
  for (let start = from; start < bytes.length; start++) {
    if (mayStart(spelling, bytes, start) && matchAt(bytes, start, spelling.characters) === 'open')
      return bytes.length - start;
  }
  return 0;
}

/** True if the bytes contain any escape character. */
export function hasEscapes(bytes: Buffer): boolean {
  return marks.some((mark) => bytes.includes(mark));
}

/**
 * Compares the bytes from `start` with the text. Returns `open` if the bytes end before the text
 * does.
 */
function matchAt(
  bytes: Buffer,
  start: number,
  characters: EncodedForms['characters'],
): 'whole' | 'open' | 'none' {
  let at = start;
  for (let index = 0; index < characters.length; index++) {
    if (at >= bytes.length) return 'open';
    const length = anyFormAt(bytes, at, characters[index] ?? []);
    if (length === 0) return 'none';
    if (length < 0) return 'open';
    at += length;
  }
  return 'whole';
}

/** Length of the encoded character at `at`; 0 if it does not match, -1 if more bytes are needed. */
function anyFormAt(bytes: Buffer, at: number, forms: readonly Form[]): number {
  let open = 0;
  for (const form of forms) {
    const length = formAt(bytes, at, form);
    if (length > 0) return length;
    if (length < 0) open = -1;
  }
  return open;
}

function formAt(bytes: Buffer, at: number, form: Form): number {
  const escaped = escapeAt(bytes, at, form);
  return escaped === 0 ? bytesAt(bytes, at, form.utf8) : escaped;
}

function escapeAt(bytes: Buffer, at: number, form: Form): number {
  switch (bytes[at]) {
    case backslash:
      return backslashEscapeAt(bytes, at, form);
    case percent:
      return unitsAt(bytes, at, form.utf16);
    case ampersand:
      return entityAt(bytes, at, form.codePoint);
    default:
      return 0;
  }
}

/** Matches bytes that are plain, percent-encoded, or escaped as `\x5f` or `\137`. */
function bytesAt(bytes: Buffer, start: number, wanted: Buffer): number {
  let at = start;
  for (let index = 0; index < wanted.length; index++) {
    if (at >= bytes.length) return -1;
    const length = byteAt(bytes, at, wanted[index] ?? 0);
    if (length <= 0) return length;
    at += length;
  }
  return at - start;
}

function byteAt(bytes: Buffer, at: number, wanted: number): number {
  const byte = bytes[at];
  const escaped =
    byte === percent
      ? percentAt(bytes, at, wanted)
      : byte === backslash
        ? backslashByteAt(bytes, at, wanted)
        : 0;
  // A percent sign or backslash is either literal or begins its own escape.
  if (escaped !== 0) return escaped;
  return byte === wanted || (byte === plus && wanted === space) ? 1 : 0;
}

/** Length of the percent-encoded byte at `start`: `%5F`, or `%255F` if it was encoded twice. */
function percentAt(bytes: Buffer, start: number, wanted: number): number {
  let at = start + 1;
  for (let level = 0; level < percentLevelsMax; level++) {
    const found = hexAt(bytes, at, { digits: 2, wanted });
    if (found !== 0) return found < 0 ? -1 : at + 2 - start;
    const encoded = hexAt(bytes, at, { digits: 2, wanted: percent });
    if (encoded <= 0) return encoded;
    at += 2;
  }
  return 0;
}

/** Length of the byte at `start` that is escaped as `\x5f` or `\137`. */
function backslashByteAt(bytes: Buffer, start: number, wanted: number): number {
  const at = behindBackslashes(bytes, start);
  const mark = bytes[at];
  if (mark === undefined) return -1;
  if ((mark | 0x20) !== lowerX) return add(octalAt(bytes, at, wanted) * 3, at - start);
  return add(hexAt(bytes, at + 1, { digits: 2, wanted }) * 2, at + 1 - start);
}

/**
 * Length of the escape sequence at `start` that represents the character: `\/`, `\u005f`,
 * `\U0000005f`, `\u{5f}` or `\x{5f}`; for Latin-1 also `\xe4`.
 */
function backslashEscapeAt(bytes: Buffer, start: number, form: Form): number {
  const { codePoint, utf16 } = form;
  const second = bytes[start + 1];
  if (codePoint === backslash) return second === undefined ? -1 : second === backslash ? 2 : 0;
  const at = behindBackslashes(bytes, start);
  const mark = bytes[at];
  if (mark === undefined) return -1;
  if (mark === codePoint && isPunctuation(codePoint)) return at + 1 - start;
  const letter = mark | 0x20;
  if (letter !== lowerU && letter !== lowerX) return 0;
  if (bytes[at + 1] === openBrace) return add(bracedAt(bytes, at + 2, codePoint), at + 2 - start);
  if (letter === lowerU) {
    const long = hexAt(bytes, at + 1, { digits: 8, wanted: codePoint });
    return long === 0 ? unitsAt(bytes, start, utf16) : add(long * 8, at + 1 - start);
  }
  const isLatin = codePoint > 0x7f && codePoint <= 0xff;
  return isLatin
    ? add(hexAt(bytes, at + 1, { digits: 2, wanted: codePoint }) * 2, at + 1 - start)
    : 0;
}

function isPunctuation(code: number): boolean {
  return code < 0x80 && code > space && !/[0-9a-z]/i.test(String.fromCharCode(code));
}

function behindBackslashes(bytes: Buffer, start: number): number {
  let at = start;
  while (at - start < backslashesMax && bytes[at] === backslash) at++;
  return at;
}

/** Length of the UTF-16 code units at `start`, each escaped as `\u005f` or `%u005f`. */
function unitsAt(bytes: Buffer, start: number, utf16: readonly number[]): number {
  let at = start;
  for (const wanted of utf16) {
    if (at >= bytes.length) return -1;
    const behind = bytes[at] === percent ? at + 1 : behindBackslashes(bytes, at);
    if (behind === at) return 0;
    const mark = bytes[behind];
    if (mark === undefined) return -1;
    if ((mark | 0x20) !== lowerU) return 0;
    const digits = hexAt(bytes, behind + 1, { digits: 4, wanted });
    if (digits <= 0) return digits;
    at = behind + 5;
  }
  return at - start;
}

/**
 * Length of a hexadecimal number with its closing brace, such as `5f}`. It may have leading zeros.
 */
function bracedAt(bytes: Buffer, start: number, codePoint: number): number {
  return numberAt(bytes, start, {
    radix: 16,
    end: closeBrace,
    wanted: codePoint,
    digits: braceDigitsMax,
  });
}
