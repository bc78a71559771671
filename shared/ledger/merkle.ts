import { hash } from 'node:crypto';

// Merkle trees (RFC 6962 section 2.1, RFC 9162). The leaves are the 32-byte event hashes of a
// tenant's ledger in position order.

/** Root of the empty tree. */
export const emptyRoot: Buffer = hash('sha256', '', 'buffer');

const hashBytes = 32;
const leafPrefix = Buffer.from([0]);
const nodePrefix = Buffer.from([1]);
// Reused buffers, because verifying a ledger computes two hashes for each row.
const leafInput = Buffer.concat([leafPrefix, Buffer.alloc(hashBytes)]);
const nodeInput = Buffer.concat([nodePrefix, Buffer.alloc(2 * hashBytes)]);

export function leafHash(data: Uint8Array): Buffer {
  if (data.length !== hashBytes) return hash('sha256', Buffer.concat([leafPrefix, data]), 'buffer');
  leafInput.set(data, 1);
  return hash('sha256', leafInput, 'buffer');
}

export function nodeHash(left: Uint8Array, right: Uint8Array): Buffer {
  if (left.length !== hashBytes || right.length !== hashBytes) {
    return hash('sha256', Buffer.concat([nodePrefix, left, right]), 'buffer');
  }
  nodeInput.set(left, 1);
  nodeInput.set(right, 1 + hashBytes);
  return hash('sha256', nodeInput, 'buffer');
}

/** The leaf of a ledger row. */
export function leafOf(eventHash: string): Buffer {
  return leafHash(Buffer.from(eventHash.slice('sha256:'.length), 'hex'));
}

/**
 * The part of a growing tree that is needed to compute its root and to append leaves: the roots of
 * its full subtrees, largest first, one for each 1 bit of its size.
 */
export class Frontier {
  size: number;
  readonly roots: Buffer[];

  constructor(size = 0, roots: readonly Buffer[] = []) {
    if (roots.length !== onesOf(size)) {
      throw new TypeError(`a tree of ${size} leaves has ${onesOf(size)} full subtrees`);
    }
    this.size = size;
    this.roots = [...roots];
  }

  append(leaf: Buffer): void {
    let node = leaf;
    // Bit operations would truncate the size to 32 bits.
    for (let size = this.size; size % 2 === 1; size = (size - 1) / 2) {
      node = nodeHash(this.roots.pop() ?? node, node);
    }
    this.roots.push(node);
    this.size++;
  }

  root(): Buffer {
    const smallest = this.roots.at(-1);
    if (smallest === undefined) return emptyRoot;
    return this.roots.slice(0, -1).reduceRight((right, left) => nodeHash(left, right), smallest);
  }

  clone(): Frontier {
    return new Frontier(this.size, this.roots);
  }
}

function onesOf(size: number): number {
  let ones = 0;
  for (let rest = size; rest > 0; rest = Math.floor(rest / 2)) ones += rest % 2;
  return ones;
}

/** Leaves from `start` up to but not including `end`, counted from 0. */
export interface LeafRange {
  readonly start: number;
  readonly end: number;
}

/**
 * The subtrees whose roots, in this order, prove that leaf `index` is in the tree of `size` leaves.
 */
export function inclusionRanges(index: number, size: number): readonly LeafRange[] {
  if (index < 0 || index >= size) throw new RangeError(`no leaf ${index} among ${size}`);
  const path = ({ start, end }: LeafRange): LeafRange[] => {
    if (end - start === 1) return [];
    const split = start + splitOf(end - start);
    return index < split
      ? [...path({ start, end: split }), { start: split, end }]
      : [...path({ start: split, end }), { start, end: split }];
  };
  return path({ start: 0, end: size });
}

/**
 * The subtrees whose roots prove that the tree of `size` leaves extends the tree of `before`
 * leaves.
 */
export function consistencyRanges(before: number, size: number): readonly LeafRange[] {
  if (before < 0 || before > size) throw new RangeError(`${before} is not within ${size}`);
  if (before === 0) return [];
  const proof = ({ start, end }: LeafRange, whole: boolean): LeafRange[] => {
    if (before === end) return whole ? [] : [{ start, end }];
    const split = start + splitOf(end - start);
    return before <= split
      ? [...proof({ start, end: split }, whole), { start: split, end }]
      : [...proof({ start: split, end }, false), { start, end: split }];
  };
  return proof({ start: 0, end: size }, true);
}

/** The largest power of two below `size`. */
function splitOf(size: number): number {
  let split = 1;
  while (split * 2 < size) split *= 2;
  return split;
}

interface InclusionClaim {
  readonly leaf: Buffer;
  readonly index: number;
  readonly size: number;
  readonly root: Buffer;
}

/** Verifies an inclusion proof (RFC 9162 section 2.1.3.2). */
export function verifyInclusion(claim: InclusionClaim, proof: readonly Buffer[]): boolean {
  if (!isIndex(claim.index) || claim.index >= claim.size) return false;
  let [node, last] = [claim.index, claim.size - 1];
  let reached = claim.leaf;
  for (const sibling of proof) {
    if (last === 0) return false;
    if (node % 2 === 1 || node === last) {
      reached = nodeHash(sibling, reached);
      [node, last] = skipLeftEdges(node, last);
    } else {
      reached = nodeHash(reached, sibling);
    }
    [node, last] = [Math.floor(node / 2), Math.floor(last / 2)];
  }
  return last === 0 && reached.equals(claim.root);
}

interface ConsistencyClaim {
  readonly before: number;
  readonly beforeRoot: Buffer;
  readonly size: number;
  readonly root: Buffer;
}

/** Verifies a consistency proof (RFC 9162 section 2.1.4.2). */
export function verifyConsistency(claim: ConsistencyClaim, proof: readonly Buffer[]): boolean {
  const { before, beforeRoot, size, root } = claim;
  if (!isIndex(before) || before > size) return false;
  if (before === 0) return proof.length === 0 && beforeRoot.equals(emptyRoot);
  if (before === size) return proof.length === 0 && beforeRoot.equals(root);
  const [first, ...rest] = splitOf(before + 1) === before ? [beforeRoot, ...proof] : proof;
  if (first === undefined) return false;
  let [node, last] = [before - 1, size - 1];
  while (node % 2 === 1) [node, last] = [Math.floor(node / 2), Math.floor(last / 2)];
  let [old, grown] = [first, first];
  for (const sibling of rest) {
    if (last === 0) return false;
    if (node % 2 === 1 || node === last) {
      old = nodeHash(sibling, old);
      grown = nodeHash(sibling, grown);
      [node, last] = skipLeftEdges(node, last);
    } else {
      grown = nodeHash(grown, sibling);
    }
    [node, last] = [Math.floor(node / 2), Math.floor(last / 2)];
  }
  return last === 0 && old.equals(beforeRoot) && grown.equals(root);
}

/**
 * Moves up while the node is a left child: on the right edge, a node without a sibling has the same
 * hash as its parent.
 */
function skipLeftEdges(node: number, last: number): [number, number] {
  let [up, edge] = [node, last];
  while (up % 2 === 0 && up !== 0) [up, edge] = [Math.floor(up / 2), Math.floor(edge / 2)];
  return [up, edge];
}

function isIndex(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}
