import { verificationKeys } from '../../../shared/crypto/signing-key.ts';
import { GatewayError } from '../../../shared/errors/gateway-error.ts';
import { ledgerOrigin, openCheckpoint, signCheckpoint } from '../../../shared/ledger/checkpoint.ts';
import { verifyHead } from '../../../shared/ledger/head.ts';
import { consistencyRanges, emptyRoot, verifyConsistency } from '../../../shared/ledger/merkle.ts';
import { vkeyOf } from '../../../shared/ledger/note.ts';
import { enqueue, installPlace } from '../../platform/outbound/enqueue.ts';
import { readWebhookSettings } from '../../platform/outbound/webhook-settings.ts';
import type { SigningKeys } from '../../platform/signing-keys/signing-keys.ts';
import { type Transaction, transaction } from '../../platform/store/transaction.ts';
import type { LedgerServices } from '../ledger-services.ts';
import { type Checkpoint, checkpointRecord } from './checkpoint-record.ts';
import { refuseFork } from './fork.ts';
import { fillNodes, MissingNodes, readRoots } from './nodes.ts';
import { readNewest, readSignedEnd, type SignedEnd, type StoredNote } from './stored.ts';

export type { Checkpoint } from './checkpoint-record.ts';

export type CheckpointServices = Pick<
  LedgerServices,
  'config' | 'db' | 'pool' | 'signingKeys' | 'ledger' | 'vault' | 'clock' | 'log'
>;

const triesMax = 5;

/**
 * Returns a checkpoint of the current ledger: the newest one, or a new one if the ledger grew.
 * Signs only a ledger that extends the newest checkpoint; any other ledger is an incident and
 * throws `evidence.fork`. Never call it inside a transaction.
 */
export async function checkpointNow(
  services: CheckpointServices,
  tenantId: string,
): Promise<Checkpoint> {
  for (let tries = 1; tries <= triesMax; tries++) {
    const newest = await newestCheckpoint(services, tenantId);
    const end = await readSignedEnd(services.pool, tenantId);
    if (newest !== undefined && end.size === newest.size) {
      return isSame(end, newest) ? newest : refuse(services, tenantId, newest, 'another root');
    }
    await checkExtends(services, tenantId, { newest, end });
    const made = await sign(services, tenantId, { after: newest?.size, end });
    // Another replica stored a checkpoint first. The next try compares the ledger with that
    // checkpoint.
    if (made !== undefined) return made;
  }
  throw new GatewayError('store.unavailable', {
    message: 'Other replicas created checkpoints at the same time; try again.',
  });
}

/**
 * Returns the newest stored checkpoint, if any. A checkpoint that no key of the tenant signed is an
 * incident.
 */
export async function newestCheckpoint(
  services: CheckpointServices,
  tenantId: string,
): Promise<Checkpoint | undefined> {
  const stored = await readNewest(services.pool, tenantId);
  return stored && openStored(services, tenantId, stored);
}

/** Verifies the signature of a stored checkpoint. */
export async function openStored(
  services: CheckpointServices,
  tenantId: string,
  stored: StoredNote,
): Promise<Checkpoint> {
  const keys = await ownKeys(services.signingKeys, tenantId);
  const opened = openCheckpoint(stored.note, keys);
  if (opened?.head.size !== stored.size) {
    return refuseFork(services, tenantId, {
      size: stored.size,
      problem: 'a stored checkpoint is not signed by a key of the tenant',
    });
  }
  const { size, root } = opened.head;
  const note = [stored.note, ...stored.cosignatures.map((line) => `${line}\n`)].join('');
  return { note, size, root, kid: opened.kid, vkey: opened.vkey, createdAt: stored.createdAt };
}

/**
 * Returns only public keys whose private key the vault can decrypt. A row in the key table is not
 * enough, because such a row can be forged.
 */
async function ownKeys(signingKeys: SigningKeys, tenantId: string) {
  const keys = await signingKeys.history(tenantId, 'checkpoint');
  return keys.map(({ publicJwk }) => publicJwk);
}

interface Step {
  readonly newest: Checkpoint | undefined;
  readonly end: SignedEnd;
}

/**
 * Verifies that a batch signed this head, that the rows produce the head, and that the head extends
 * the previous checkpoint.
 */
async function checkExtends(
  services: CheckpointServices,
  tenantId: string,
  { newest, end }: Step,
): Promise<void> {
  const before = { size: newest?.size ?? 0, root: newest?.root ?? emptyRoot };
  if (end.size < before.size) return refuse(services, tenantId, before, 'the ledger is shorter');
  if (!(await isSignedEnd(services.signingKeys, tenantId, end))) {
    return refuse(services, tenantId, before, 'the end of the ledger is not signed by its key');
  }
  try {
    await fillNodes(services.pool, tenantId, end.size);
    const steps = consistencyRanges(before.size, end.size);
    const whole = { start: 0, end: end.size };
    const [root, ...proof] = await readRoots(services.pool, tenantId, [whole, ...steps]);
    if (root === undefined || !root.equals(end.root)) {
      return refuse(services, tenantId, before, 'the rows are not those that were signed');
    }
    const claim = { before: before.size, beforeRoot: before.root, size: end.size, root: end.root };
    if (verifyConsistency(claim, proof)) return;
  } catch (error) {
    if (!(error instanceof MissingNodes)) throw error;
    return refuse(services, tenantId, before, error.message);
  }
  return refuse(services, tenantId, before, 'the ledger does not extend the checkpoint');
}

async function isSignedEnd(
  signingKeys: SigningKeys,
  tenantId: string,
  { size, root, jws }: SignedEnd,
): Promise<boolean> {
  if (size === 0) return root.equals(emptyRoot);
  const head = { tenant: tenantId, position: size, tree_root: `sha256:${root.toString('hex')}` };
  return verifyHead(head, jws ?? '', verificationKeys(await ownKeys(signingKeys, tenantId)));
}

async function sign(
  services: CheckpointServices,
  tenantId: string,
  { after, end }: { readonly after: number | undefined; readonly end: SignedEnd },
): Promise<Checkpoint | undefined> {
  const key = await services.signingKeys.active(tenantId, 'checkpoint');
  const origin = ledgerOrigin(services.config.ledgerOrigin, tenantId);
  const { size, root } = end;
  const note = signCheckpoint({ origin, size, root }, key);
  const vkey = vkeyOf(origin, key.publicJwk);
  const createdAt = new Date(services.clock.now());
  const checkpoint = { note, size, root, kid: key.kid, vkey, createdAt };
  const isKept = await insertCheckpoint(services, tenantId, { checkpoint, after });
  return isKept ? checkpoint : undefined;
}

function isSame(end: SignedEnd, { root }: Checkpoint): boolean {
  return end.root.equals(root);
}

function refuse(
  services: CheckpointServices,
  tenantId: string,
  { size }: { readonly size: number },
  problem: string,
): Promise<never> {
  return refuseFork(services, tenantId, { size, problem });
}

interface NewCheckpoint {
  readonly checkpoint: Checkpoint;
  /** Size of the previous checkpoint; undefined if there was none. */
  readonly after: number | undefined;
}

/**
 * Stores a checkpoint and queues it for the tenant's webhook. Returns false, without an effect, if
 * another process stored a newer checkpoint after the comparison.
 */
async function insertCheckpoint(
  services: Pick<LedgerServices, 'db' | 'vault' | 'clock' | 'log'>,
  tenantId: string,
  { checkpoint, after }: NewCheckpoint,
): Promise<boolean> {
  const { size, note, createdAt } = checkpoint;
  return transaction(services.db, async (tx) => {
    const newest = await tx.evidenceCheckpoint.findFirst({
      where: { tenantId },
      orderBy: { size: 'desc' },
      select: { size: true },
    });
    if ((newest === null ? undefined : Number(newest.size)) !== after) return false;
    const data = [{ tenantId, size, note, createdAt }];
    const { count } = await tx.evidenceCheckpoint.createMany({ data, skipDuplicates: true });
    if (count === 0) return false;
    await pushCheckpoint(services, tx, tenantId, checkpoint);
    return true;
  });
}

type PushServices = Pick<LedgerServices, 'vault' | 'clock' | 'log'>;

const channel = 'webhook';

/** Queues a new checkpoint for the tenant's webhook, if the webhook asks for checkpoints. */
async function pushCheckpoint(
  services: PushServices,
  tx: Transaction,
  tenantId: string,
  checkpoint: Checkpoint,
): Promise<void> {
  const install = await tx.install.findUnique({
    where: { tenantId_channel: { tenantId, channel } },
    select: { sealed: true, status: true },
  });
  if (install?.status !== 'active' || install.sealed === null) return;
  if (!keepsCheckpoints(services, tenantId, install.sealed)) return;
  await enqueue(services, tx, tenantId, {
    type: 'evidence.checkpoint',
    subject: `checkpoint:${checkpoint.size}`,
    data: checkpointRecord(checkpoint),
  });
}

/**
 * Returns whether the webhook receives checkpoints. Settings that cannot be read count as no,
 * because they must not prevent the creation of checkpoints.
 */
function keepsCheckpoints({ vault, log }: PushServices, tenantId: string, sealed: string): boolean {
  try {
    const text = vault.open(sealed, installPlace(tenantId, channel)).toString('utf8');
    return readWebhookSettings(text).checkpoints === true;
  } catch (err) {
    log.error({ err, tenantId }, 'could not read the webhook settings; the checkpoint is not sent');
    return false;
  }
}
