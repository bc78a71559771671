import { charactersOf, hasEscapes, holdsEscaped, openEscapedBytes } from './secret-spelling.ts';

// Shorter ones are found in any text; the plain secret is always looked for.
const needleBytesMin = 6;
// The longest spelling of one byte or character is an entity with leading zeros: `&#x0000002f;`.
const spellingBytesMax = 12;

/** Looks for a secret in bytes that come piece by piece. */
export interface SecretScanner {
  /** Whether the bytes hold the secret whole, in any of its spellings. */
  finds(bytes: Buffer): boolean;
  /** How many of the last bytes could be the beginning of the secret. */
  openBytes(bytes: Buffer): number;
}

/**
 * Knows a secret as it is, in UTF-16, in hexadecimal digits, in base64 and base64url at any
 * alignment, and with any of its characters percent-encoded, JSON-escaped or written as HTML entity.
 */
export function secretScanner(secret: string): SecretScanner {
  const plain = Buffer.from(secret);
  const needles = [plain, ...encodedNeedles(plain), ...otherNeedles(secret)];
  // Made when the first escape is seen: most answers have none.
  let known: ReturnType<typeof charactersOf> | undefined;
  const characters = () => {
    known ??= charactersOf(secret);
    return known;
  };
  const escapedMax = plain.length * spellingBytesMax;

  return {
    finds: (bytes) =>
      needles.some((needle) => bytes.includes(needle)) ||
      (hasEscapes(bytes) && holdsEscaped(bytes, characters())),
    openBytes(bytes) {
      let open = 0;
      for (const needle of needles) open = Math.max(open, prefixAtEnd(bytes, needle));
      if (!hasEscapes(bytes)) return open;
      const from = Math.max(0, bytes.length - escapedMax);
      return Math.max(open, openEscapedBytes(bytes, characters(), from));
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

function otherNeedles(secret: string): Buffer[] {
  const utf16 = Buffer.from(secret, 'utf16le');
  const digits = Buffer.from(secret).toString('hex');
  return [
    utf16,
    Buffer.from(utf16).swap16(),
    ...[digits, digits.toUpperCase()]
      .filter((text) => text.length >= needleBytesMin)
      .map((text) => Buffer.from(text)),
  ];
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
