import { canonicalJson } from '../../crypto/jcs.ts';
import { type ObjectSignature, signObject, verifyObject } from '../../crypto/signed-object.ts';
import type { PublicJwk, SigningKey, VerificationKeys } from '../../crypto/signing-key.ts';
import type { SiemDialect } from '../siem/dialects.ts';

export const exportFormats = ['json', 'md', 'csv', 'siem'] as const;
export type ExportFormat = (typeof exportFormats)[number];

/**
 * The filters of an export. An export without filters contains every event up to its checkpoint.
 */
export interface ExportFilters {
  readonly chain_id?: string | undefined;
  readonly agent_id?: string | undefined;
  readonly tool?: string | undefined;
  readonly decision?: string | undefined;
  readonly reason_code?: string | undefined;
  readonly type?: string | undefined;
  readonly from?: string | undefined;
  readonly to?: string | undefined;
}

/** The signed description at the end of an export. */
export interface ExportStatement {
  readonly type: 'evidence-export';
  readonly tenant: string;
  readonly format: ExportFormat;
  /** Only with `siem`. */
  readonly dialect?: SiemDialect | undefined;
  readonly created_at: string;
  readonly filters: ExportFilters;
  /** Number of events in the export. */
  readonly events: number;
  /** Length of the content from the first byte; `content_sha256` is its hash (`sha256:<hex>`). */
  readonly bytes: number;
  readonly content_sha256: string;
  /** A signed note: the state of the ledger when the export began. */
  readonly checkpoint: string;
  /**
   * The keys that signed statement and checkpoint. They are included for convenience and prove
   * nothing.
   */
  readonly keys: readonly PublicJwk[];
}

/** A statement and its signature, the end of every export. */
export interface ExportTrailer {
  readonly statement: ExportStatement;
  readonly signature: ObjectSignature;
}

/** `typ` of a signed statement, so that the signature is not valid for another kind of object. */
const exportTyp = 'evidence-export+jws';

export function signStatement(statement: ExportStatement, key: SigningKey): ExportTrailer {
  return { statement, signature: signObject(statement, exportTyp, key) };
}

export function verifyStatement(
  { statement, signature }: ExportTrailer,
  keys: VerificationKeys,
): boolean {
  return verifyObject({ object: statement, signature, typ: exportTyp }, keys);
}

/** Returns the trailer as canonical JSON, which is its only valid form. */
export function trailerText({ statement, signature }: ExportTrailer): string {
  return canonicalJson({ signature, statement });
}
