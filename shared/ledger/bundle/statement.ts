import { canonicalJson } from '../../crypto/jcs.ts';
import { type ObjectSignature, signObject, verifyObject } from '../../crypto/signed-object.ts';
import type { PublicJwk, SigningKey, VerificationKeys } from '../../crypto/signing-key.ts';
import type { SiemDialect } from '../siem/dialects.ts';

export const exportFormats = ['json', 'md', 'csv', 'siem'] as const;
export type ExportFormat = (typeof exportFormats)[number];

/** What an export was narrowed by; none: it holds every event up to its checkpoint. */
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

/** What an export says of itself at its end: this is what is signed. */
export interface ExportStatement {
  readonly type: 'evidence-export';
  readonly tenant: string;
  readonly format: ExportFormat;
  /** Only with `siem`. */
  readonly dialect?: SiemDialect | undefined;
  readonly created_at: string;
  readonly filters: ExportFilters;
  /** How many events it holds. */
  readonly events: number;
  /** The content is this many bytes from the beginning, with this hash (`sha256:<hex>`). */
  readonly bytes: number;
  readonly content_sha256: string;
  /** A signed note: the ledger as it was when the export began. */
  readonly checkpoint: string;
  /** The keys that signed statement and checkpoint: for convenience, they prove nothing. */
  readonly keys: readonly PublicJwk[];
}

/** A statement and its signature: how every export ends. */
export interface ExportTrailer {
  readonly statement: ExportStatement;
  readonly signature: ObjectSignature;
}

/** `typ` of a signed statement: no signature made for another purpose passes for one. */
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

/** The one way to write a trailer as JSON. */
export function trailerText({ statement, signature }: ExportTrailer): string {
  return canonicalJson({ signature, statement });
}
