import { isUtf8 } from 'node:buffer';
import { GatewayError } from '../errors/gateway-error.ts';
import { isJsonObject, type JsonValue } from './json.ts';
import { finish, type Steps } from './steps.ts';

interface StrictJsonLimits {
  /** Maximum nesting of arrays and objects; `{}` has one level. Default: 64. */
  readonly depthMax?: number;
  /**
   * `exact` (default) refuses a number whose value changes when it is parsed and printed again;
   * `rounded` accepts it as the nearest double.
   */
  readonly numbers?: 'exact' | 'rounded';
  /** Limits on content that is expensive to check. Default: no limit besides the text's length. */
  readonly size?: JsonSizeLimits | undefined;
}

/**
 * Limits on the content of a JSON text, so that case folding, comparing and hashing it stay fast.
 */
export interface JsonSizeLimits {
  /** Members of all objects together. */
  readonly membersMax: number;
  /** Values of all arrays and objects together. */
  readonly valuesMax: number;
  /** Bytes of one name, as it appears in the text. */
  readonly nameBytesMax: number;
  /** Bytes of all names together. */
  readonly namesBytesMax: number;
  /** Numbers too long for the fast check; each of them is compared digit by digit. */
  readonly longNumbersMax: number;
}

/** Limits for values that are evaluated as arguments. */
export const argumentLimits: JsonSizeLimits = {
  membersMax: 10_000,
  valuesMax: 100_000,
  nameBytesMax: 1_024,
  namesBytesMax: 262_144,
  longNumbersMax: 20_000,
};

/**
 * Limits for documents such as policies. A schema bounds the size of such a document, and its
 * member names are never case-folded.
 */
export const documentLimits: JsonSizeLimits = {
  membersMax: 500_000,
  valuesMax: 2_000_000,
  nameBytesMax: 1_024,
  namesBytesMax: 8_388_608,
  longNumbersMax: 20_000,
};

/**
 * Limits for simulation requests. These contain policies and actions, and the arguments of the
 * actions are compared and hashed.
 */
export const simulationLimits: JsonSizeLimits = {
  ...argumentLimits,
  membersMax: 30_000,
  namesBytesMax: 524_288,
};

/** Properties of a JSON text that are lost when the text is parsed. */
interface Scan {
  /**
   * Number of colons outside strings, which equals the number of members of all objects, including
   * duplicates.
   */
  members: number;
  /** True if the text contains an escaped surrogate, so that strings may be ill-formed. */
  surrogateEscaped: boolean;
  /**
   * Number of commas outside strings; n values in an array or object are separated by n - 1 commas.
   */
  commas: number;
  /** Length of the most recent string. */
  stringBytes: number;
  namesBytes: number;
  longNumbers: number;
}

/**
 * Parses JSON (RFC 8259) that every parser reads as the same value: UTF-8 without BOM, a single
 * value, no duplicate key in an object after unescaping, no lone surrogate, no number that changes
 * when printed again, and limited nesting. `__proto__` is an ordinary key.
 */
export function parseStrictJson(bytes: Uint8Array, limits: StrictJsonLimits = {}): JsonValue {
  return finish(parseStrictJsonInSteps(bytes, limits));
}

/**
 * Like `parseStrictJson`, in short steps, so that a server can handle other requests in between.
 */
export function* parseStrictJsonInSteps(
  bytes: Uint8Array,
  limits: StrictJsonLimits = {},
): Steps<JsonValue> {
  const text = decodeUtf8(bytes);
  yield;
  const scan = scanBytes(bytes, limits);
  yield;
  const value = parse(text);
  yield;
  if (scan.surrogateEscaped) refuseLoneSurrogates(value);
  if (scan.members > 0 && countMembers(value) !== scan.members) {
    throw new GatewayError('args.duplicate_key');
  }
  return value;
}

/** Decodes UTF-8; refuses invalid sequences and a byte order mark. */
export function decodeUtf8(bytes: Uint8Array): string {
  if (!isUtf8(bytes)) {
    throw new GatewayError('args.encoding_invalid', { message: 'The body is not valid UTF-8.' });
  }
  if (bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) {
    throw new GatewayError('args.encoding_invalid', {
      message: 'The body starts with a byte order mark; leave it out.',
    });
  }
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8');
}

function parse(text: string): JsonValue {
  try {
    return JSON.parse(text) as JsonValue;
  } catch (cause) {
    throw new GatewayError('args.schema_invalid', {
      message: 'The body is not valid JSON.',
      cause,
    });
  }
}

const quote = 0x22;
const backslash = 0x5c;

/**
 * Scans the bytes once, without recursion. Bytes of multi-byte characters never equal JSON's
 * structural characters. The result for malformed JSON does not matter, because the parser then
 * refuses the text.
 */
function scanBytes(
  bytes: Uint8Array,
  { depthMax = 64, numbers = 'exact', size = unlimited }: StrictJsonLimits,
): Scan {
  const scan: Scan = {
    members: 0,
    surrogateEscaped: false,
    commas: 0,
    stringBytes: 0,
    namesBytes: 0,
    longNumbers: 0,
  };
  let depth = 0;
  let at = 0;
  while (at < bytes.length) {
    const byte = bytes[at] ?? 0;
    if (byte === quote) {
      const end = skipString(bytes, at + 1, scan);
      scan.stringBytes = end - at;
      at = end;
    } else if (byte === 0x2d || isDigit(byte)) {
      const end = numberEnd(bytes, at + 1);
      if (numbers === 'exact' && refuseUnsafeNumber(bytes, at, end)) countLongNumber(scan, size);
      at = end;
    } else {
      if (byte === 0x7b || byte === 0x5b) {
        if (++depth > depthMax) throw tooDeep(depthMax);
      } else if (byte === 0x7d || byte === 0x5d) depth--;
      else if (byte === 0x3a) countMember(scan, size);
      else if (byte === 0x2c && ++scan.commas >= size.valuesMax) throw tooMany(size.valuesMax);
      at++;
    }
  }
  return scan;
}

const unlimited: JsonSizeLimits = {
  membersMax: Number.POSITIVE_INFINITY,
  valuesMax: Number.POSITIVE_INFINITY,
  nameBytesMax: Number.POSITIVE_INFINITY,
  namesBytesMax: Number.POSITIVE_INFINITY,
  longNumbersMax: Number.POSITIVE_INFINITY,
};

/** Counts the string before a colon as a member name. */
function countMember(scan: Scan, size: JsonSizeLimits): void {
  scan.members += 1;
  scan.namesBytes += scan.stringBytes;
  if (scan.members > size.membersMax) throw tooMany(size.membersMax);
  if (scan.stringBytes > size.nameBytesMax) {
    throw new GatewayError('args.name_too_long', {
      message: `A name in the body is longer than ${size.nameBytesMax} bytes; shorten it.`,
    });
  }
  if (scan.namesBytes > size.namesBytesMax) {
    throw new GatewayError('args.name_too_long', {
      message: `The names in the body are longer than ${size.namesBytesMax} bytes together; shorten them.`,
    });
  }
}

function countLongNumber(scan: Scan, { longNumbersMax }: JsonSizeLimits): void {
  scan.longNumbers += 1;
  if (scan.longNumbers > longNumbersMax) throw tooMany(longNumbersMax);
}

function tooMany(max: number): GatewayError {
  return new GatewayError('args.too_many_members', {
    message: `The body contains more than ${max} members or values of one kind; split it into several requests.`,
  });
}

/** Returns the position after the string whose opening quote is just before `start`. */
function skipString(bytes: Uint8Array, start: number, scan: Scan): number {
  let at = start;
  while (at < bytes.length) {
    const byte = bytes[at];
    if (byte === quote) return at + 1;
    if (byte !== backslash) {
      at++;
      continue;
    }
    // An escaped surrogate, D800 to DFFF; the hex digit may be upper or lower case.
    if (bytes[at + 1] === 0x75 && ((bytes[at + 2] ?? 0) | 0x20) === 0x64) {
      scan.surrogateEscaped = true;
    }
    at += 2;
  }
  return at;
}

function isDigit(byte: number): boolean {
  return byte >= 0x30 && byte <= 0x39;
}

/** Returns the position after a run of digits, points, signs and exponent marks. */
function numberEnd(bytes: Uint8Array, start: number): number {
  let at = start;
  for (; at < bytes.length; at++) {
    const byte = bytes[at] ?? 0;
    const isNumeric = isDigit(byte) || byte === 0x2e || byte === 0x2b || byte === 0x2d;
    if (!isNumeric && (byte | 0x20) !== 0x65) break;
  }
  return at;
}

/** A double preserves any decimal of up to 15 significant digits (DBL_DIG). */
const safeLength = 15;

/** Throws if parsing a number changes its value. Returns true if the check needed the slow path. */
function refuseUnsafeNumber(bytes: Uint8Array, start: number, end: number): boolean {
  if (end - start <= safeLength && isShortDecimal(bytes, start, end)) return false;
  const token = Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString('latin1');
  const number = Number(token);
  const printed = String(number);
  // An unsafe number is always printed differently: `-0` as `0`, and `1e999` as `Infinity`.
  if (printed === token) return false;
  // A malformed token: the parser refuses it with a better message.
  if (!decimalForm.test(token)) return true;
  if (Number.isFinite(number) && decimal(token) === decimal(printed)) return true;
  throw new GatewayError('args.number_unsafe', {
    message: 'A number cannot be represented exactly; send it as a string, or with fewer digits.',
  });
}

/**
 * True for digits and a decimal point, without exponent. Numbers that begin with `-0` are excluded,
 * because minus zero loses its sign.
 */
function isShortDecimal(bytes: Uint8Array, start: number, end: number): boolean {
  if (bytes[start] === 0x2d && bytes[start + 1] === 0x30) return false;
  for (let at = start + 1; at < end; at++) {
    const byte = bytes[at] ?? 0;
    if (!isDigit(byte) && byte !== 0x2e) return false;
  }
  return true;
}

const decimalForm = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/;

/**
 * The canonical form of a decimal number: sign, digits without leading or trailing zeros, exponent.
 */
function decimal(token: string): string {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = decimalForm.exec(token) ?? [];
  const digits = withoutOuterZeros(whole + fraction);
  if (digits.text === '') return `${sign}0`;
  return `${sign}${digits.text}e${Number(exponent) - fraction.length + digits.trailing}`;
}

/**
 * Removes zeros at both ends. Uses loops, because the regular expression `0+$` takes quadratic time
 * on a long run of inner zeros.
 */
function withoutOuterZeros(digits: string): { text: string; trailing: number } {
  let start = 0;
  let end = digits.length;
  while (start < end && digits.charCodeAt(start) === 0x30) start++;
  while (end > start && digits.charCodeAt(end - 1) === 0x30) end--;
  return { text: digits.slice(start, end), trailing: digits.length - end };
}

/**
 * Counts the members of all objects in a value. The scan has limited the depth of the recursion.
 */
function countMembers(value: JsonValue | undefined): number {
  if (typeof value !== 'object' || value === null) return 0;
  let count = 0;
  if (Array.isArray(value)) {
    for (const item of value as readonly JsonValue[]) {
      if (typeof item === 'object') count += countMembers(item);
    }
    return count;
  }
  for (const member of Object.values(value)) {
    count += typeof member === 'object' ? 1 + countMembers(member) : 1;
  }
  return count;
}

function refuseLoneSurrogates(value: JsonValue | undefined): void {
  if (typeof value === 'string') {
    if (!value.isWellFormed()) throw loneSurrogate();
  } else if (Array.isArray(value)) {
    for (const item of value as readonly JsonValue[]) refuseLoneSurrogates(item);
  } else if (isJsonObject(value)) {
    for (const name of Object.keys(value)) {
      if (!name.isWellFormed()) throw loneSurrogate();
      refuseLoneSurrogates(value[name]);
    }
  }
}

function tooDeep(depthMax: number): GatewayError {
  return new GatewayError('args.too_deep', {
    message: `The body is nested deeper than ${depthMax} levels.`,
  });
}

function loneSurrogate(): GatewayError {
  return new GatewayError('args.encoding_invalid', {
    message: 'A string contains half of a surrogate pair; send valid Unicode.',
  });
}
