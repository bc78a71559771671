import fs from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import type { Log } from '../../shared/base/log.ts';
import { sha256 } from '../../shared/crypto/hash.ts';
import type { LedgerAcknowledgement } from '../../shared/ledger/ledger-acknowledgement.ts';
import type { SpoolPosition } from '../../shared/ledger/spool-head.ts';

const fileName = 'acked.json';

/** The ledger's acknowledgement, and its sidecar, because a folder may outlive an enrolment. */
export interface KeptAcknowledgement extends LedgerAcknowledgement {
  readonly sidecar: string;
}

interface StoredPosition {
  /** Up to here everything is sealed. */
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
 * The position up to which everything is sealed, as a former process left it. Undefined when
 * there is none that can be read: then more is uploaded again than need be, and nothing is lost.
 */
export function loadPosition(folder: string, log: Log): StoredPosition | undefined {
  try {
    const stored: unknown = JSON.parse(fs.readFileSync(join(folder, fileName), 'utf8'));
    const parsed = form.safeParse(stored);
    if (parsed.success && checkOf(parsed.data) === parsed.data.check) {
      // Nothing but the position: it is signed and sent as it is, and the control plane takes no more.
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

/** Shows a text of which a loss of power kept only a part. */
function checkOf({ record, hash, ledger }: Stored): string {
  if (ledger === undefined) return sha256(`${record}:${hash}`);
  const { sidecar, position, tree_root, jws } = ledger;
  return sha256(JSON.stringify([record, hash, sidecar, position, tree_root, jws]));
}

/** Long enough for any position: the text that was there is always overwritten whole. */
const textChars = 1536;

/**
 * Writes it over the one before, in place: replacing the file by another one would wait for the
 * disk, for milliseconds, with every upload.
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
