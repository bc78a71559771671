// Each function returns 0 if the wanted number is not present, and -1 if more bytes are needed.

/**
 * Adds the length of a prefix to the length of a match. Keeps 0 (no match) and -1 (more bytes are
 * needed).
 */
export function add(length: number, before: number): number {
  return length <= 0 ? Math.sign(length) : length + before;
}

/** Returns 1 if three octal digits encode the byte. */
export function octalAt(bytes: Buffer, at: number, wanted: number): -1 | 0 | 1 {
  for (let index = 0; index < 3; index++) {
    const byte = bytes[at + index];
    if (byte === undefined) return -1;
    if (byte !== 0x30 + ((wanted >> (6 - 3 * index)) & 7)) return 0;
  }
  return 1;
}

interface Numeral {
  readonly radix: number;
  readonly end: number;
  readonly wanted: number;
  readonly digits: number;
}

/** Length of the digits with their closing byte. The number may have leading zeros. */
export function numberAt(
  bytes: Buffer,
  at: number,
  { radix, end, wanted, digits }: Numeral,
): number {
  let value = 0;
  for (let index = 0; index <= digits; index++) {
    const byte = bytes[at + index];
    if (byte === undefined) return -1;
    if (byte === end) return index > 0 && value === wanted ? index + 1 : 0;
    const digit = digitOf(byte);
    if (digit >= radix) return 0;
    value = value * radix + digit;
  }
  return 0;
}

function digitOf(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const letter = byte | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : Number.POSITIVE_INFINITY;
}

/** Returns 1 if the digits encode the number, 0 if not, -1 if more bytes are needed. */
export function hexAt(
  bytes: Buffer,
  at: number,
  { digits, wanted }: { readonly digits: number; readonly wanted: number },
): -1 | 0 | 1 {
  for (let index = 0; index < digits; index++) {
    const byte = bytes[at + index];
    if (byte === undefined) return -1;
    const shift = 4 * (digits - 1 - index);
    if (digitOf(byte) !== ((wanted >>> shift) & 0xf)) return 0;
  }
  return 1;
}
