import { GatewayError } from '../../../shared/errors/gateway-error.ts';
import {
  consistencyRanges,
  inclusionRanges,
  leafOf,
  verifyConsistency,
  verifyInclusion,
} from '../../../shared/ledger/merkle.ts';
import { headPosition } from '../reading/read-ledger.ts';
import {
  type CheckpointServices,
  checkpointNow,
  newestCheckpoint,
  openStored,
} from './checkpoint.ts';
import type { Checkpoint } from './checkpoint-record.ts';
import { refuseFork } from './fork.ts';
import { fillNodes, MissingNodes, readEventHashes, readRoots } from './nodes.ts';
import { readOfSize } from './stored.ts';

interface Proof {
  readonly root: Buffer;
  readonly proof: readonly Buffer[];
  /** Undefined if no checkpoint of this size was signed. */
  readonly checkpoint: Checkpoint | undefined;
}

interface InclusionProof extends Proof {
  readonly eventHash: string;
  readonly leaf: Buffer;
  readonly size: number;
}

/**
 * Proves that the event at a position is in the tree of the given size. The proof is verified
 * before it is returned.
 */
export async function inclusionProof(
  services: CheckpointServices,
  tenantId: string,
  { position, size }: { readonly position: number; readonly size?: number | undefined },
): Promise<InclusionProof> {
  const tree = await treeOf(services, tenantId, { size, covers: position });
  if (position > tree.size) throw new GatewayError('evidence.position_not_found');
  return provedOr(services, tenantId, async () => {
    const { pool } = services;
    const index = position - 1;
    const span = { start: index, end: position };
    const [eventHash = ''] = await readEventHashes(pool, tenantId, span);
    const leaf = leafOf(eventHash);
    await fillNodes(pool, tenantId, tree.size);
    const whole = { start: 0, end: tree.size };
    const ranges = [whole, ...inclusionRanges(index, tree.size)];
    const [computed = leaf, ...proof] = await readRoots(pool, tenantId, ranges);
    const root = tree.checkpoint?.root ?? computed;
    if (!verifyInclusion({ leaf, index, size: tree.size, root }, proof)) return undefined;
    return { ...tree, eventHash, leaf, root, proof };
  });
}

interface ConsistencyProof extends Proof {
  readonly fromRoot: Buffer;
  readonly to: number;
}

/**
 * Proves that the tree of one size is a prefix of the tree of a larger size. The proof is verified
 * before it is returned.
 */
export async function consistencyProof(
  services: CheckpointServices,
  tenantId: string,
  { from, to }: { readonly from: number; readonly to?: number | undefined },
): Promise<ConsistencyProof> {
  const tree = await treeOf(services, tenantId, { size: to, covers: from });
  if (from > tree.size) throw new GatewayError('evidence.size_not_found');
  const before = await checkpointOf(services, tenantId, from);
  return provedOr(services, tenantId, async () => {
    const { pool } = services;
    await fillNodes(pool, tenantId, tree.size);
    const wholes = [from, tree.size].map((end) => ({ start: 0, end }));
    const ranges = [...wholes, ...consistencyRanges(from, tree.size)];
    const [first, last, ...proof] = await readRoots(pool, tenantId, ranges);
    const fromRoot = before?.root ?? first;
    const root = tree.checkpoint?.root ?? last;
    if (fromRoot === undefined || root === undefined) return undefined;
    const claim = { before: from, beforeRoot: fromRoot, size: tree.size, root };
    if (!verifyConsistency(claim, proof)) return undefined;
    return { fromRoot, to: tree.size, root, proof, checkpoint: tree.checkpoint };
  });
}

interface ProvedTree {
  readonly size: number;
  readonly checkpoint: Checkpoint | undefined;
}

/**
 * Returns the tree of the requested size. If no size is requested, returns the tree of the newest
 * checkpoint, or of a new checkpoint if the newest one is smaller than `covers`.
 */
async function treeOf(
  services: CheckpointServices,
  tenantId: string,
  { size, covers }: { readonly size: number | undefined; readonly covers: number },
): Promise<ProvedTree> {
  if (size !== undefined) {
    if (size > (await headPosition(services.pool, tenantId))) {
      throw new GatewayError('evidence.size_not_found');
    }
    return { size, checkpoint: await checkpointOf(services, tenantId, size) };
  }
  const newest = await newestCheckpoint(services, tenantId);
  const isEnough = newest !== undefined && newest.size >= covers;
  const checkpoint = isEnough ? newest : await checkpointNow(services, tenantId);
  return { size: checkpoint.size, checkpoint };
}

async function checkpointOf(
  services: CheckpointServices,
  tenantId: string,
  size: number,
): Promise<Checkpoint | undefined> {
  const stored = await readOfSize(services.pool, tenantId, size);
  return stored && openStored(services, tenantId, stored);
}

/**
 * Returns the proof. If the proof fails, reports a fork, because rows, stored hashes or checkpoints
 * were then changed.
 */
async function provedOr<Result>(
  services: CheckpointServices,
  tenantId: string,
  prove: () => Promise<Result | undefined>,
): Promise<Result> {
  let problem = 'the rows are not those that were signed';
  try {
    const result = await prove();
    if (result !== undefined) return result;
  } catch (error) {
    if (!(error instanceof MissingNodes)) throw error;
    problem = error.message;
  }
  const newest = await newestCheckpoint(services, tenantId);
  return refuseFork(services, tenantId, { size: newest?.size ?? 0, problem });
}
