import fs from 'node:fs';
import { join } from 'node:path';
import { sha256 } from '../../shared/crypto/hash.ts';
import type { SpoolPosition } from '../../shared/evidence/spool-head.ts';
import type { Log } from '../../shared/log.ts';

const fileName = 'acked.json';

/**
 * The position up to which everything is sealed, as a former process left it. Undefined when
 * there is none that can be read: then more is uploaded again than need be, and nothing is lost.
 */
export function loadPosition(folder: string, log: Log): SpoolPosition | undefined {
  try {
    const stored: unknown = JSON.parse(fs.readFileSync(join(folder, fileName), 'utf8'));
    if (isPosition(stored) && checkOf(stored) === stored.check) return positionOf(stored);
    log.error({}, 'the acknowledged position on disk cannot be used');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') {
      log.error({ err: error }, 'the acknowledged position on disk cannot be used');
    }
  }
  return undefined;
}

function isPosition(value: unknown): value is SpoolPosition & { readonly check: unknown } {
  if (typeof value !== 'object' || value === null) return false;
  const { record, hash } = value as Record<string, unknown>;
  return Number.isSafeInteger(record) && Number(record) >= 0 && /^[0-9a-f]{64}$/.test(String(hash));
}

/** Nothing but the position: it is signed and sent as it is, and the control plane takes no more. */
function positionOf({ record, hash }: SpoolPosition): SpoolPosition {
  return { record, hash };
}

/** Shows a text of which a loss of power kept only a part. */
function checkOf({ record, hash }: SpoolPosition): string {
  return sha256(`${record}:${hash}`);
}

/** Long enough for any position: the text that was there is always overwritten whole. */
const textChars = 256;

/**
 * Writes it over the one before, in place: replacing the file by another one would wait for the
 * disk, for milliseconds, with every upload.
 */
export function storePosition(folder: string, { record, hash }: SpoolPosition): void {
  const flags = fs.constants.O_WRONLY | fs.constants.O_CREAT;
  const fd = fs.openSync(join(folder, fileName), flags, 0o600);
  try {
    const text = JSON.stringify({ record, hash, check: checkOf({ record, hash }) });
    fs.writeSync(fd, text.padEnd(textChars), 0);
  } finally {
    fs.closeSync(fd);
  }
}
