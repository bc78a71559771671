import fs from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import type { Log } from '../../shared/base/log.ts';
import { sha256 } from '../../shared/crypto/hash.ts';
import type { LedgerAcknowledgement } from '../../shared/ledger/ledger-acknowledgement.ts';
import type { SpoolPosition } from '../../shared/ledger/spool-head.ts';

const fileName = 'acked.json';

/**
 * The ledger's acknowledgement, with the id of the sidecar that received it, because a folder may
 * outlive an enrolment.
 */
export interface KeptAcknowledgement extends LedgerAcknowledgement {
  readonly sidecar: string;
}

interface StoredPosition {
  /** All records up to this position are sealed. */
  readonly position: SpoolPosition;
  readonly ledger: KeptAcknowledgement | undefined;
}

const form = z.object({
  record: z.number().int().min(0),
  hash: z.string().regex(/^[0-9a-f]{64}$/),
  ledger: z
    .object({
      sidecar: z.string(),
      position: z.number().int(),
      tree_root: z.string(),
      jws: z.string(),
    })
    .optional(),
  check: z.string(),
});
type Stored = Omit<z.output<typeof form>, 'check'>;

/**
 * Loads the position up to which all records are sealed, as an earlier process stored it. Undefined
 * if there is no readable position; some records are then uploaded again, and none is lost.
 */
export function loadPosition(folder: string, log: Log): StoredPosition | undefined {
  try {
    const stored: unknown = JSON.parse(fs.readFileSync(join(folder, fileName), 'utf8'));
    const parsed = form.safeParse(stored);
    if (parsed.success && checkOf(parsed.data) === parsed.data.check) {
      // Drops other members, because the position is signed and sent unchanged, and the control
      // plane refuses unknown members.
      const { record, hash, ledger } = parsed.data;
      return { position: { record, hash }, ledger };
    }
    log.error({}, 'the acknowledged position on disk cannot be used');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') {
      log.error({ err: error }, 'the acknowledged position on disk cannot be used');
    }
  }
  return undefined;
}

/**
 * Computes a checksum, which detects a file that was written only partially before a loss of power.
 */
function checkOf({ record, hash, ledger }: Stored): string {
  if (ledger === undefined) return sha256(`${record}:${hash}`);
  const { sidecar, position, tree_root, jws } = ledger;
  return sha256(JSON.stringify([record, hash, sidecar, position, tree_root, jws]));
}

/** Longer than any position, so that the previous text is always overwritten completely. */
const textChars = 1536;

/**
 * Overwrites the stored position in place, because replacing the file would wait milliseconds for
 * the disk at every upload.
 */
export function storePosition(
  folder: string,
  { record, hash }: SpoolPosition,
  ledger?: KeptAcknowledgement,
): void {
  const flags = fs.constants.O_WRONLY | fs.constants.O_CREAT;
  const fd = fs.openSync(join(folder, fileName), flags, 0o600);
  try {
    const stored: Stored = { record, hash, ...(ledger === undefined ? {} : { ledger }) };
    const text = JSON.stringify({ ...stored, check: checkOf(stored) });
    fs.writeSync(fd, text.padEnd(textChars), 0);
  } finally {
    fs.closeSync(fd);
  }
}
