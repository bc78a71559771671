import { containsEncoded, encodedForms, hasEscapes, openEncodedBytes } from './encoded-secret.ts';

// Shorter encodings of the secret would match ordinary text. The plain secret is always searched
// for.
const needleBytesMin = 6;
// Shorter secrets are matched case-sensitively, because otherwise they would match ordinary words.
const anyCaseBytesMin = 8;
// The longest encoding of one byte or character: `\\\\U0000005f`.
const spellingBytesMax = 16;

const probeChars = 3;

/** Searches for a secret in bytes that arrive in chunks. */
export interface SecretScanner {
  /** True if the bytes contain the complete secret in any encoding. */
  finds(bytes: Buffer): boolean;
  /** Returns how many bytes at the end could be the beginning of the secret. */
  openBytes(bytes: Buffer): number;
}

/**
 * Recognises a secret in any capitalisation, in UTF-16, in hexadecimal, in base64 and base64url at
 * any alignment, and with any characters percent-encoded, escaped as in JSON or source code, or
 * written as HTML entities.
 */
export function secretScanner(secret: string): SecretScanner {
  const plain = Buffer.from(secret);
  const anyCase = plain.length >= anyCaseBytesMin;
  const base64 = base64Needles(plain);
  const needles: Buffer[] = [
    ...(anyCase ? [secret, secret.toUpperCase(), secret.toLowerCase()] : [secret]),
    ...base64,
  ].map((text) => Buffer.from(text));
  needles.push(...otherNeedles(secret));
  const spelling = encodedForms(secret, anyCase);
  // JSON encoders escape `/`, and forms also escape `+`.
  const escaped = base64
    .filter((text) => /[+/]/.test(text))
    .map((text) => encodedForms(text, false));
  const probes = anyCase ? anyCaseProbes(secret) : [plain];
  const mayHold = (bytes: Buffer) =>
    probes.length === 0 || probes.some((probe) => bytes.includes(probe));
  const spelledMax =
    Math.max(plain.length, ...base64.map((text) => text.length)) * spellingBytesMax;

  return {
    finds(bytes) {
      if (needles.some((needle) => bytes.includes(needle))) return true;
      const isEscaped = hasEscapes(bytes);
      if ((isEscaped || mayHold(bytes)) && containsEncoded(bytes, spelling)) return true;
      return isEscaped && escaped.some((text) => containsEncoded(bytes, text));
    },
    openBytes(bytes) {
      const from = Math.max(0, bytes.length - spelledMax);
      let open = openEncodedBytes(bytes, spelling, from);
      for (const needle of needles) open = Math.max(open, prefixAtEnd(bytes, needle));
      for (const text of escaped) open = Math.max(open, openEncodedBytes(bytes, text, from));
      return open;
    },
  };
}

/**
 * The base64 encodings of the secret with 0, 1 or 2 bytes before it in the same group, limited to
 * the characters that depend on the secret alone.
 */
function base64Needles(plain: Buffer): string[] {
  const needles = new Set<string>();
  for (let before = 0; before < 3; before++) {
    const text = Buffer.concat([Buffer.alloc(before), plain]).toString('base64');
    const first = Math.ceil((before * 8) / 6);
    const end = Math.floor(((before + plain.length) * 8) / 6);
    const needle = text.slice(first, end);
    needles.add(needle);
    needles.add(needle.replaceAll('+', '-').replaceAll('/', '_'));
  }
  return [...needles].filter((text) => text.length >= needleBytesMin);
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

/**
 * Returns short parts of the secret in every capitalisation. Any text with the unescaped secret
 * contains one of them. A native search for the parts is ten times as fast as a comparison at every
 * byte.
 */
function anyCaseProbes(secret: string): readonly Buffer[] {
  const letters = (text: string) => text.replaceAll(/[^a-z]/gi, '').length;
  const windows = Array.from(secret, (_, at) => secret.slice(at, at + probeChars))
    .filter((window) => /^[\x21-\x7e]+$/.test(window) && window.length === probeChars)
    .toSorted((one, other) => letters(one) - letters(other));
  let probes = windows.length === 0 ? [] : [''];
  for (const character of windows[0] ?? '') {
    const forms = new Set([character.toLowerCase(), character.toUpperCase()]);
    probes = probes.flatMap((probe) => [...forms].map((form) => probe + form));
  }
  return probes.map((probe) => Buffer.from(probe));
}

/** Length of the longest suffix of `bytes` that is a proper prefix of `needle`. */
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
