import { SettingsError } from '../../shared/base/settings.ts';
import { type PublicJwk, verificationKeys } from '../../shared/crypto/signing-key.ts';
import {
  looksLikeTrail,
  type TrailFacts,
  verifyTrail,
} from '../../shared/ledger/audit/statement.ts';
import type { ExportFile } from '../../shared/ledger/bundle/read.ts';
import { printJson, printLines } from '../support/terminal.ts';

/** Length of the part at the end of a file that contains a trail's signed statement. */
const tailBytes = 4_096;
/**
 * Maximum size of a trail, because a trail is read into memory as a whole. Exported trails are far
 * smaller.
 */
const trailBytesMax = 268_435_456;

/** True if a file is an audit trail and not an export of evidence. */
export async function isAuditTrail(file: ExportFile): Promise<boolean> {
  const head = Buffer.from(await file.read(0, Math.min(32, file.size)));
  const tail = Buffer.from(await file.read(Math.max(0, file.size - tailBytes), file.size));
  return looksLikeTrail(head.toString('utf8'), tail.toString('utf8'));
}

interface AuditTrust {
  /** Thumbprints of keys that are trusted to sign reports. */
  readonly reporters: ReadonlySet<string>;
  readonly jwks: readonly PublicJwk[];
  readonly checkpoint?: string | undefined;
  readonly isJson: boolean;
}

/** Verifies an exported audit trail, with the same exit codes as exports. */
export async function verifyAuditTrail(
  file: ExportFile,
  { reporters, jwks, checkpoint, isJson }: AuditTrust,
): Promise<number> {
  if (checkpoint !== undefined) {
    throw new SettingsError(
      '--checkpoint: an audit trail cannot be compared with a checkpoint; omit the option.',
    );
  }
  if (jwks.length === 0) {
    throw new SettingsError('An audit trail contains no keys. Pass --jwks FILE.');
  }
  if (file.size > trailBytesMax)
    throw new SettingsError('The file is larger than 256 MiB, too large for an audit trail.');
  const facts = verifyTrail(await file.read(0, file.size), verificationKeys(jwks));
  const trusted = facts !== undefined && reporters.has(facts.signed_by);
  if (isJson) printJson({ ok: facts !== undefined, trusted, ...facts });
  else printLines(verdict(facts, trusted));
  if (facts === undefined) return 1;
  return trusted ? 0 : 3;
}

function verdict(facts: TrailFacts | undefined, trusted: boolean): readonly string[] {
  if (facts === undefined) {
    return ['✗ altered: no given key signed exactly these bytes', 'NOT VERIFIED'];
  }
  const { tenant, format, created_at, signed_by } = facts;
  const what = `${format} audit trail of ${tenant}, made ${created_at}, signed as a whole`;
  return trusted
    ? [what, `signed by ${signed_by}, which you trust`, 'VERIFIED']
    : [
        what,
        `signed by ${signed_by}, a key that you do not trust to sign reports`,
        'INTACT BUT UNTRUSTED: not signed by a key that you trust. Pass --trust-key or --jwks.',
      ];
}
