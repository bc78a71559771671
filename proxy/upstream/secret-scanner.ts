// Shorter ones are found in any text; the plain secret is always looked for.
const needleBytesMin = 6;
const percent = 0x25;
const backslash = 0x5c;
const plus = 0x2b;
const space = 0x20;

/** Looks for a secret in bytes that come piece by piece. */
export interface SecretScanner {
  /** Whether the bytes hold the secret whole, in any of its spellings. */
  finds(bytes: Buffer): boolean;
  /** How many of the last bytes could be the beginning of the secret. */
  openBytes(bytes: Buffer): number;
}

/**
 * Knows a secret as it is, in base64 and base64url at any alignment, and with any of its bytes
 * percent-encoded or JSON-escaped.
 */
export function secretScanner(secret: string): SecretScanner {
  const plain = Buffer.from(secret);
  const needles = [plain, ...encodedNeedles(plain)];
  // One byte is at most the six characters of a JSON escape.
  const escapedMax = plain.length * 6;

  return {
    finds: (bytes) =>
      needles.some((needle) => bytes.includes(needle)) || holdsEscaped(bytes, plain),
    openBytes(bytes) {
      let open = 0;
      for (const needle of needles) open = Math.max(open, prefixAtEnd(bytes, needle));
      const from = Math.max(0, bytes.length - escapedMax);
      return Math.max(open, openEscapedBytes(bytes, plain, from));
    },
  };
}

/**
 * What base64 makes of the secret when 0, 1 or 2 bytes stand before it in the same group: the
 * characters that depend on the secret alone.
 */
function encodedNeedles(plain: Buffer): Buffer[] {
  const needles = new Set<string>();
  for (let before = 0; before < 3; before++) {
    const text = Buffer.concat([Buffer.alloc(before), plain]).toString('base64');
    const first = Math.ceil((before * 8) / 6);
    const end = Math.floor(((before + plain.length) * 8) / 6);
    const needle = text.slice(first, end);
    needles.add(needle);
    needles.add(needle.replaceAll('+', '-').replaceAll('/', '_'));
  }
  return [...needles]
    .filter((text) => text.length >= needleBytesMin)
    .map((text) => Buffer.from(text));
}

/** Length of the longest end of `bytes` that `needle` begins with, and that is not all of it. */
function prefixAtEnd(bytes: Buffer, needle: Buffer): number {
  const first = needle[0];
  const longest = Math.min(needle.length - 1, bytes.length);
  for (let length = longest; length > 0; length--) {
    const start = bytes.length - length;
    if (bytes[start] !== first) continue;
    if (bytes.compare(needle, 0, length, start) === 0) return length;
  }
  return 0;
}

/** Whether an escaped spelling stands anywhere. Only bytes with escapes are walked. */
function holdsEscaped(bytes: Buffer, plain: Buffer): boolean {
  if (!hasEscapes(bytes)) return false;
  for (let start = 0; start < bytes.length; start++) {
    if (matchAt(bytes, start, plain) === 'whole') return true;
  }
  return false;
}

function openEscapedBytes(bytes: Buffer, plain: Buffer, from: number): number {
  if (!hasEscapes(bytes)) return 0;
  for (let start = from; start < bytes.length; start++) {
    if (matchAt(bytes, start, plain) === 'open') return bytes.length - start;
  }
  return 0;
}

function hasEscapes(bytes: Buffer): boolean {
  return bytes.includes(percent) || bytes.includes(backslash) || bytes.includes(plus);
}

/** `open` when the bytes end before the secret does. */
function matchAt(bytes: Buffer, start: number, plain: Buffer): 'whole' | 'open' | 'none' {
  let at = start;
  for (let index = 0; index < plain.length; index++) {
    if (at >= bytes.length) return 'open';
    const length = spelledAt(bytes, at, plain[index] ?? 0);
    if (length === 0) return 'none';
    if (length < 0) return 'open';
    at += length;
  }
  return 'whole';
}

/** Length of a spelling of `wanted` at that place; 0 when there is none, -1 when it may follow. */
function spelledAt(bytes: Buffer, at: number, wanted: number): number {
  const byte = bytes[at];
  if (byte === percent && wanted !== percent) return hexAt(bytes, at + 1, 2, wanted, 3);
  if (byte === backslash) return jsonEscapeAt(bytes, at, wanted);
  if (byte === plus && wanted === space) return 1;
  if (byte !== wanted) return 0;
  // A percent sign stands for itself, or begins the spelling of one.
  if (wanted !== percent) return 1;
  const encoded = hexAt(bytes, at + 1, 2, wanted, 3);
  return encoded === 0 ? 1 : encoded;
}

function jsonEscapeAt(bytes: Buffer, at: number, wanted: number): number {
  const next = bytes[at + 1];
  if (next === undefined) return -1;
  if (next === 0x75) return hexAt(bytes, at + 2, 4, wanted, 6);
  const escapable = wanted === 0x22 || wanted === 0x2f || wanted === backslash;
  if (escapable && next === wanted) return 2;
  return wanted === backslash ? 1 : 0;
}

function hexAt(bytes: Buffer, at: number, digits: number, wanted: number, length: number): number {
  const expected = wanted.toString(16).padStart(digits, '0');
  for (let index = 0; index < digits; index++) {
    const byte = bytes[at + index];
    if (byte === undefined) return -1;
    // Setting bit 5 makes A–F lower case and leaves digits as they are.
    if ((byte | 0x20) !== expected.charCodeAt(index)) return 0;
  }
  return length;
}
