import { randomBytes } from 'node:crypto';

/**
 * A time-ordered UUID (RFC 9562, version 7): 48 bits of `nowMs`, the rest random.
 * Time-ordered so that indexes stay local; random enough to be unguessable.
 */
function uuidV7(nowMs: number): string {
  const bytes = randomBytes(16);
  bytes.writeUIntBE(nowMs, 0, 6);
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x70;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  const hex = bytes.toString('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

/** A prefixed id such as `ev_0198…`; the prefix says what the id names. */
export function newId(prefix: string, nowMs: number): string {
  return `${prefix}_${uuidV7(nowMs).replaceAll('-', '')}`;
}

/** The creation time in milliseconds of an id made by `newId`, or undefined when it is not one. */
export function idTimeMs(id: string): number | undefined {
  const hex = /^[a-z]+_([0-9a-f]{12})7[0-9a-f]{3}[89ab][0-9a-f]{15}/.exec(id)?.[1];
  return hex === undefined ? undefined : Number.parseInt(hex, 16);
}
