import { add, numberAt } from './escaped-numbers.ts';

const hash = 0x23;
const semicolon = 0x3b;
const lowerX = 0x78;
const entityCharsMax = 12;

/** HTML's entity names for ASCII punctuation, in lower case (HTML section 13.5). */
const names: ReadonlyMap<number, readonly string[]> = new Map([
  [0x21, ['excl']],
  [0x22, ['quot']],
  [0x23, ['num']],
  [0x24, ['dollar']],
  [0x25, ['percnt']],
  [0x26, ['amp']],
  [0x27, ['apos']],
  [0x28, ['lpar']],
  [0x29, ['rpar']],
  [0x2a, ['ast', 'midast']],
  [0x2b, ['plus']],
  [0x2c, ['comma']],
  [0x2e, ['period']],
  [0x2f, ['sol']],
  [0x3a, ['colon']],
  [0x3b, ['semi']],
  [0x3c, ['lt']],
  [0x3d, ['equals']],
  [0x3e, ['gt']],
  [0x3f, ['quest']],
  [0x40, ['commat']],
  [0x5b, ['lsqb', 'lbrack']],
  [0x5c, ['bsol']],
  [0x5d, ['rsqb', 'rbrack']],
  [0x5e, ['hat']],
  [0x5f, ['lowbar', 'underbar']],
  [0x60, ['grave']],
  [0x7b, ['lcub', 'lbrace']],
  [0x7c, ['verbar', 'vert', 'verticalline']],
  [0x7d, ['rcub', 'rbrace']],
]);

/** Length of `&amp;`, `&#38;` or `&#x26;`; 0 if none matches, -1 if more bytes are needed. */
export function entityAt(bytes: Buffer, start: number, codePoint: number): number {
  const mark = bytes[start + 1];
  if (mark === undefined) return -1;
  if (mark !== hash) return namedEntityAt(bytes, start + 1, codePoint);
  const sign = bytes[start + 2];
  if (sign === undefined) return -1;
  const radix = (sign | 0x20) === lowerX ? 16 : 10;
  const before = radix === 16 ? 3 : 2;
  const digits = entityCharsMax - before - 1;
  const wanted = { radix, end: semicolon, wanted: codePoint, digits };
  return add(numberAt(bytes, start + before, wanted), before);
}

function namedEntityAt(bytes: Buffer, at: number, codePoint: number): number {
  let open = 0;
  for (const name of names.get(codePoint) ?? []) {
    const length = nameAt(bytes, at, name);
    if (length > 0) return length + 1;
    if (length < 0) open = -1;
  }
  return open;
}

/** Matches a lower-case name and its semicolon, ignoring case in the bytes. */
function nameAt(bytes: Buffer, at: number, name: string): number {
  for (let index = 0; index <= name.length; index++) {
    const byte = bytes[at + index];
    if (byte === undefined) return -1;
    if (index === name.length) return byte === semicolon ? index + 1 : 0;
    if ((byte | 0x20) !== name.charCodeAt(index)) return 0;
  }
  return 0;
}
