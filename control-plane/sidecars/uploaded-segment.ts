import { z } from 'zod';
import { verifyJws } from '../../shared/crypto/jws.ts';
import { parsePublicJwk, verificationKeys } from '../../shared/crypto/signing-key.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { LedgerAcknowledgement } from '../../shared/ledger/ledger-acknowledgement.ts';
import { type SpoolHead, spoolHeadType, spoolLinkHash } from '../../shared/ledger/spool-head.ts';
import type { Sidecar } from '../platform/store/generated/client.ts';

const position = z.strictObject({
  record: z.number().int().min(0),
  hash: z.string().regex(/^[0-9a-f]{64}$/),
});
const headForm = z.strictObject({ sidecar: z.string(), after: position, last: position });

export interface Upload {
  /** Compact JWS over the records' position in the spool. */
  readonly segment: string;
  /** Signed head of the ledger that was last acknowledged to this sidecar. */
  readonly ledger?: LedgerAcknowledgement | undefined;
  /** The exact lines of the spool. */
  readonly records: readonly string[];
}

export const firstLine = z.strictObject({
  segment: z.string().max(4096),
  ledger: z
    .strictObject({
      position: z.number().int().min(1).max(Number.MAX_SAFE_INTEGER),
      tree_root: z.string().regex(/^sha256:[0-9a-f]{64}$/),
      jws: z.string().max(1024),
    })
    .optional(),
});

/** Separates the head of an upload from its records. */
export function uploadIn([first = '', ...records]: readonly string[]): Upload {
  try {
    return { ...firstLine.parse(JSON.parse(first)), records };
  } catch (cause) {
    const message = 'The first line must be {"segment": …}, the signed head of the records.';
    throw new GatewayError('args.schema_invalid', { message, cause });
  }
}

/**
 * Verifies records against the signed head: signature, sidecar id, and the hash chain of the lines.
 * Returns the problem, if any.
 */
export function readUpload(
  sidecar: Pick<Sidecar, 'id' | 'signingJwk'>,
  { segment, records }: Upload,
): SpoolHead | { readonly problem: string } {
  const keys = verificationKeys([parsePublicJwk(sidecar.signingJwk)]);
  const verified = verifyJws(segment, spoolHeadType, keys);
  if (!verified.ok) return { problem: `the segment does not verify: ${verified.detail}` };
  const parsed = headForm.safeParse(verified.payload);
  if (!parsed.success) return { problem: 'the segment is not a spool head' };
  const head = parsed.data;
  if (head.sidecar !== sidecar.id) return { problem: 'the segment is another sidecar’s' };
  if (head.last.record - head.after.record !== records.length) {
    return { problem: 'the segment counts other records' };
  }
  const hash = records.reduce(spoolLinkHash, head.after.hash);
  return hash === head.last.hash ? head : { problem: 'the records are not those of the segment' };
}
