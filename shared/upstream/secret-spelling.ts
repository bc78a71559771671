const percent = 0x25;
const ampersand = 0x26;
const hash = 0x23;
const plus = 0x2b;
const semicolon = 0x3b;
const backslash = 0x5c;
const lowerU = 0x75;
const lowerX = 0x78;
const space = 0x20;
const entityCharsMax = 12;

const named: Readonly<Record<string, number>> = {
  amp: 0x26,
  apos: 0x27,
  gt: 0x3e,
  lt: 0x3c,
  quot: 0x22,
};

/** One character of a secret: as bytes, and as the numbers by which escapes name it. */
interface Character {
  readonly utf8: Buffer;
  readonly utf16: readonly number[];
  readonly codePoint: number;
}

export function charactersOf(secret: string): readonly Character[] {
  return Array.from(secret, (text) => ({
    utf8: Buffer.from(text),
    utf16: Array.from({ length: text.length }, (_, index) => text.charCodeAt(index)),
    codePoint: text.codePointAt(0) ?? 0,
  }));
}

/** Whether an escaped spelling stands anywhere. */
export function holdsEscaped(bytes: Buffer, secret: readonly Character[]): boolean {
  for (let start = 0; start < bytes.length; start++) {
    if (matchAt(bytes, start, secret) === 'whole') return true;
  }
  return false;
}

/** How many of the last bytes, from `from` on, could be the beginning of an escaped spelling. */
export function openEscapedBytes(
  bytes: Buffer,
  secret: readonly Character[],
  from: number,
): number {
  for (let start = from; start < bytes.length; start++) {
    if (matchAt(bytes, start, secret) === 'open') return bytes.length - start;
  }
  return 0;
}

/** Whether escaped spellings need to be looked for at all. */
export function hasEscapes(bytes: Buffer): boolean {
  return [percent, backslash, plus, ampersand].some((mark) => bytes.includes(mark));
}

/** `open` when the bytes end before the secret does. */
function matchAt(
  bytes: Buffer,
  start: number,
  secret: readonly Character[],
): 'whole' | 'open' | 'none' {
  let at = start;
  for (const character of secret) {
    if (at >= bytes.length) return 'open';
    const length = characterAt(bytes, at, character);
    if (length === 0) return 'none';
    if (length < 0) return 'open';
    at += length;
  }
  return 'whole';
}

/** Length of a spelling of the character at that place; 0 when there is none, -1 when it may follow. */
function characterAt(bytes: Buffer, at: number, character: Character): number {
  const byte = bytes[at];
  const escaped =
    byte === backslash
      ? jsonEscapeAt(bytes, at, character)
      : byte === ampersand
        ? entityAt(bytes, at, character.codePoint)
        : 0;
  return escaped === 0 ? bytesAt(bytes, at, character.utf8) : escaped;
}

/** Each byte as it is, or percent-encoded. */
function bytesAt(bytes: Buffer, start: number, wanted: Buffer): number {
  let at = start;
  for (const one of wanted) {
    if (at >= bytes.length) return -1;
    const length = byteAt(bytes, at, one);
    if (length <= 0) return length;
    at += length;
  }
  return at - start;
}

function byteAt(bytes: Buffer, at: number, wanted: number): number {
  const byte = bytes[at];
  if (byte === percent) {
    const encoded = hexAt(bytes, at + 1, { digits: 2, wanted });
    // A percent sign stands for itself, or begins the spelling of one.
    if (encoded !== 0 || wanted !== percent) return encoded < 0 ? -1 : encoded && 3;
  }
  if (byte === plus && wanted === space) return 1;
  return byte === wanted ? 1 : 0;
}

function jsonEscapeAt(bytes: Buffer, at: number, { utf16, codePoint }: Character): number {
  const next = bytes[at + 1];
  if (next === undefined) return -1;
  if (next === lowerU) return unitsAt(bytes, at, utf16);
  const escapable = codePoint === 0x22 || codePoint === 0x2f || codePoint === backslash;
  return escapable && next === codePoint ? 2 : 0;
}

/** `\uXXXX` for each unit of UTF-16. */
function unitsAt(bytes: Buffer, start: number, utf16: readonly number[]): number {
  let at = start;
  for (const wanted of utf16) {
    for (const mark of [backslash, lowerU]) {
      if (at >= bytes.length) return -1;
      if (bytes[at] !== mark) return 0;
      at++;
    }
    const digits = hexAt(bytes, at, { digits: 4, wanted });
    if (digits <= 0) return digits;
    at += 4;
  }
  return at - start;
}

/** `&amp;`, `&#38;` or `&#x26;`, with any zeros before the number. */
function entityAt(bytes: Buffer, at: number, codePoint: number): number {
  const end = bytes.subarray(at, at + entityCharsMax).indexOf(semicolon);
  const text = bytes.toString('latin1', at + 1, end < 0 ? at + entityCharsMax : at + end);
  if (end < 0) {
    const mayFollow = bytes.length - at < entityCharsMax && /^(?:#?[0-9a-z]*)$/i.test(text);
    return mayFollow ? -1 : 0;
  }
  return entityValue(text) === codePoint ? end + 1 : 0;
}

function entityValue(text: string): number | undefined {
  if (text.charCodeAt(0) !== hash) return named[text.toLowerCase()];
  const isHex = (text.charCodeAt(1) | 0x20) === lowerX;
  const digits = text.slice(isHex ? 2 : 1);
  return (isHex ? /^[0-9a-f]+$/i : /^[0-9]+$/).test(digits)
    ? Number.parseInt(digits, isHex ? 16 : 10)
    : undefined;
}

/** 1 when the digits spell the number, 0 when not, -1 when they may follow. */
function hexAt(
  bytes: Buffer,
  at: number,
  { digits, wanted }: { readonly digits: number; readonly wanted: number },
): -1 | 0 | 1 {
  const expected = wanted.toString(16).padStart(digits, '0');
  for (let index = 0; index < digits; index++) {
    const byte = bytes[at + index];
    if (byte === undefined) return -1;
    // Setting bit 5 makes A–F lower case and leaves digits as they are.
    if ((byte | 0x20) !== expected.charCodeAt(index)) return 0;
  }
  return 1;
}
