import { hash } from 'node:crypto';
import { GatewayError } from '../../../shared/errors/gateway-error.ts';
import type { Vault } from '../../platform/vault/vault.ts';

/** The row that a cursor points to. Reading resumes strictly after this row. */
interface CursorPlace {
  readonly position: number;
  /**
   * Chain and seq of the row, which make a search unnecessary when this chain is read. Empty if the
   * cursor has only a position.
   */
  readonly chainId: string;
  readonly seq: number;
}

export interface ReadCursor {
  readonly position: number;
  /** Returns the seq to resume after, if the cursor's row belongs to this chain. */
  seqIn(chainId: string): number | undefined;
}

const placeBytes = 20;
const macBytes = 12;

/**
 * Encodes position, seq and a fingerprint of the chain under a MAC, so that cursors of other
 * tenants and forged ones are rejected.
 */
export function writeCursor(
  vault: Pick<Vault, 'mac'>,
  tenantId: string,
  place: CursorPlace,
): string {
  const bytes = Buffer.alloc(placeBytes);
  bytes.writeBigUInt64BE(BigInt(place.position), 0);
  bytes.writeBigUInt64BE(BigInt(place.seq), 8);
  fingerprint(place.chainId).copy(bytes, 16);
  return Buffer.concat([bytes, macOf(vault, tenantId, bytes)]).toString('base64url');
}

/** Decodes a cursor; throws `evidence.cursor_invalid`. */
export function readCursor(
  vault: Pick<Vault, 'mac'>,
  tenantId: string,
  cursor: string,
): ReadCursor {
  const bytes = Buffer.from(cursor, 'base64url');
  const place = bytes.subarray(0, placeBytes);
  const isSigned =
    bytes.length === placeBytes + macBytes &&
    bytes.toString('base64url') === cursor &&
    macOf(vault, tenantId, place).equals(bytes.subarray(placeBytes));
  if (!isSigned) throw new GatewayError('evidence.cursor_invalid');
  const seq = Number(place.readBigUInt64BE(8));
  return {
    position: Number(place.readBigUInt64BE(0)),
    seqIn: (chainId) => (fingerprint(chainId).equals(place.subarray(16)) ? seq : undefined),
  };
}

function macOf(vault: Pick<Vault, 'mac'>, tenantId: string, place: Buffer): Buffer {
  const mac = vault.mac('evidence_cursor', `${tenantId}\n${place.toString('hex')}`);
  return Buffer.from(mac, 'hex').subarray(0, macBytes);
}

function fingerprint(chainId: string): Buffer {
  return hash('sha256', chainId, 'buffer').subarray(0, 4);
}
