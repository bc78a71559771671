import { SettingsError } from '../../shared/base/settings.ts';
import { type PublicJwk, verificationKeys } from '../../shared/crypto/signing-key.ts';
import {
  looksLikeTrail,
  type TrailFacts,
  verifyTrail,
} from '../../shared/ledger/audit/statement.ts';
import type { ExportFile } from '../../shared/ledger/bundle/read.ts';
import { say, sayJson } from '../policy/say.ts';

/** Enough of the end for the signed statement of a trail. */
const tailBytes = 4_096;
/** Far more than an exported trail has; it is read whole. */
const trailBytesMax = 268_435_456;

/** Whether a file is an audit trail and no export of evidence. */
export async function isTrail(file: ExportFile): Promise<boolean> {
  const head = Buffer.from(await file.read(0, Math.min(32, file.size)));
  const tail = Buffer.from(await file.read(Math.max(0, file.size - tailBytes), file.size));
  return looksLikeTrail(head.toString('utf8'), tail.toString('utf8'));
}

interface AuditTrust {
  /** Thumbprints. */
  readonly reporters: ReadonlySet<string>;
  readonly jwks: readonly PublicJwk[];
  readonly checkpoint?: string | undefined;
  readonly isJson: boolean;
}

/** Verifies an exported audit trail, with the same exit codes as exports. */
export async function verifyAudit(
  file: ExportFile,
  { reporters, jwks, checkpoint, isJson }: AuditTrust,
): Promise<number> {
  if (checkpoint !== undefined) {
    throw new SettingsError('--checkpoint: an audit trail says nothing about a checkpoint.');
  }
  if (jwks.length === 0) {
    throw new SettingsError('An audit trail brings no keys: give --jwks FILE.');
  }
  if (file.size > trailBytesMax) throw new SettingsError('No audit trail is that large.');
  const facts = verifyTrail(await file.read(0, file.size), verificationKeys(jwks));
  const trusted = facts !== undefined && reporters.has(facts.signed_by);
  if (isJson) sayJson({ ok: facts !== undefined, trusted, ...facts });
  else say(verdict(facts, trusted));
  if (facts === undefined) return 1;
  return trusted ? 0 : 3;
}

function verdict(facts: TrailFacts | undefined, trusted: boolean): readonly string[] {
  if (facts === undefined) {
    return ['✗ altered: it is not, to the byte, what one of the keys given signed', 'NOT VERIFIED'];
  }
  const { tenant, format, created_at, signed_by } = facts;
  const what = `${format} audit trail of ${tenant}, made ${created_at}, signed as a whole`;
  return trusted
    ? [what, `signed by ${signed_by}, which you trust`, 'VERIFIED']
    : [
        what,
        `signed by ${signed_by}, which is not for reports`,
        'INTACT, BY NO KEY THAT YOU TRUST',
      ];
}
