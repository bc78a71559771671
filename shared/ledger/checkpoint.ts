import type { PublicJwk, SigningKey } from '../crypto/signing-key.ts';
import { isNoteName, openNote, parseNote, parseVkey, signNote, vkeyOf } from './note.ts';

// Checkpoints (c2sp.org/tlog-checkpoint): the content of a signed note about a tree.

export interface TreeHead {
  /** The ledger's name: `<origin of the installation>/t/<tenant>`. */
  readonly origin: string;
  readonly size: number;
  /** 32 bytes. */
  readonly root: Buffer;
}

/** The origin of a tenant's ledger, under which its checkpoints are signed. */
export function ledgerOrigin(installation: string, tenantId: string): string {
  return `${installation}/t/${encodeURIComponent(tenantId)}`;
}

export function checkpointText({ origin, size, root }: TreeHead): string {
  return `${origin}\n${size}\n${root.toString('base64')}\n`;
}

/**
 * Parses a checkpoint without verification; undefined if the text is not a checkpoint. Extension
 * lines are ignored.
 */
export function parseCheckpointText(text: string): TreeHead | undefined {
  const [origin = '', sizeText = '', rootText = ''] = text.split('\n');
  const size = Number(sizeText);
  const root = Buffer.from(rootText, 'base64');
  const isRead =
    isNoteName(origin) &&
    /^(0|[1-9]\d*)$/.test(sizeText) &&
    Number.isSafeInteger(size) &&
    root.length === 32 &&
    root.toString('base64') === rootText;
  return isRead ? { origin, size, root } : undefined;
}

/** Signs a checkpoint as a note. */
export function signCheckpoint(head: TreeHead, key: SigningKey): string {
  return signNote(checkpointText(head), head.origin, key);
}

interface OpenedCheckpoint {
  readonly head: TreeHead;
  /** Thumbprint of the key that signed the checkpoint. */
  readonly kid: string;
  readonly vkey: string;
}

/**
 * Returns the content of a checkpoint if one of these keys signed the checkpoint under its stated
 * origin, and if this origin equals `origin` (if given). Otherwise returns undefined.
 */
export function openCheckpoint(
  note: string,
  keys: readonly PublicJwk[],
  origin?: string,
): OpenedCheckpoint | undefined {
  const claimed = parseCheckpointText(parseNote(note)?.text ?? '');
  if (claimed === undefined || (origin !== undefined && claimed.origin !== origin)) {
    return undefined;
  }
  for (const jwk of keys.filter(({ crv }) => crv === 'Ed25519')) {
    const vkey = vkeyOf(claimed.origin, jwk);
    if (openNote(note, [parseVkey(vkey)]) !== undefined) {
      return { head: claimed, kid: jwk.kid, vkey };
    }
  }
  return undefined;
}
