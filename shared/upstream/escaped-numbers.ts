// Each gives 0 or less where there is no such number: 0 for none, -1 when it may follow.

/** A length with what stands before it; 0 and below say that there is none. */
export function add(length: number, before: number): number {
  return length <= 0 ? Math.sign(length) : length + before;
}

/** 1 when three digits spell the byte. */
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

/** Length of the digits with the byte that ends them; any zeros may stand before the number. */
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

/** 1 when the digits spell the number, 0 when not, -1 when they may follow. */
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
