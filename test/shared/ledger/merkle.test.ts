import { hash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  consistencyRanges,
  emptyRoot,
  Frontier,
  inclusionRanges,
  type LeafRange,
  leafHash,
  leafOf,
  nodeHash,
  verifyConsistency,
  verifyInclusion,
} from '../../../shared/ledger/merkle.ts';

const leavesOf = (size: number) =>
  Array.from({ length: size }, (_, index) => leafHash(Buffer.from(`leaf ${index}`)));

/** Computes a root exactly as RFC 6962, section 2.1, defines it. */
function treeHash(leaves: readonly Buffer[]): Buffer {
  const [first] = leaves;
  if (first === undefined) return hash('sha256', '', 'buffer');
  if (leaves.length === 1) return first;
  let split = 1;
  while (split * 2 < leaves.length) split *= 2;
  return nodeHash(treeHash(leaves.slice(0, split)), treeHash(leaves.slice(split)));
}

const frontierOf = (leaves: readonly Buffer[]) => {
  const frontier = new Frontier();
  for (const leaf of leaves) frontier.append(leaf);
  return frontier;
};
const rootsOf = (ranges: readonly LeafRange[], leaves: readonly Buffer[]) =>
  ranges.map(({ start, end }) => frontierOf(leaves.slice(start, end)).root());
const hex = (buffers: readonly Buffer[]) => buffers.map((buffer) => buffer.toString('hex'));
const flip = (buffer: Buffer) =>
  Buffer.from(buffer.map((byte, at) => (at === 7 ? byte ^ 1 : byte)));

describe('the Merkle tree', () => {
  it('has the roots and the inclusion proof of the published test vectors', () => {
    const leaves = ['a', 'b', 'c'].map((text) => leafHash(Buffer.from(text)));
    expect(emptyRoot.toString('hex')).toBe(
      'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
    );
    expect(new Frontier().root()).toEqual(emptyRoot);
    expect(frontierOf(leaves).root().toString('base64')).toBe(
      'NmQuc8JUCrEh46a/lUWwokmCzYMOsT080Z3jzmwCHsE=',
    );
    expect(rootsOf(inclusionRanges(2, 3), leaves).map((root) => root.toString('base64'))).toEqual([
      'sTeYX/SE+2ANuTEHx3sDZcgNePW0Kd7Q/Zc2HQd5mes=',
    ]);
  });

  it('has the leaf and node hashes of Certificate Transparency’s own test vectors', () => {
    expect(leafHash(Buffer.alloc(0)).toString('hex')).toBe(
      '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d',
    );
    expect(leafOf(`sha256:${'00'.repeat(32)}`)).toEqual(leafHash(Buffer.alloc(32)));
  });

  it('has the root defined by RFC 6962 after each appended leaf', () => {
    const leaves = leavesOf(130);
    const frontier = new Frontier();
    for (const [index, leaf] of leaves.entries()) {
      frontier.append(leaf);
      expect(frontier.root()).toEqual(treeHash(leaves.slice(0, index + 1)));
    }
  });

  it('continues from a stored frontier, and refuses a frontier with the wrong shape', () => {
    const leaves = leavesOf(77);
    const stored = frontierOf(leaves.slice(0, 41));
    const frontier = new Frontier(stored.size, stored.roots);
    for (const leaf of leaves.slice(41)) frontier.append(leaf);
    expect(frontier.root()).toEqual(treeHash(leaves));
    expect(() => new Frontier(41, stored.roots.slice(1))).toThrow(TypeError);
    expect(() => new Frontier(0, stored.roots)).toThrow(TypeError);
  });

  it('can have a size of more than 32 bits', () => {
    const size = 2 ** 40 - 1;
    const roots = leavesOf(40);
    const frontier = new Frontier(size, roots);
    frontier.append(leavesOf(1)[0] ?? emptyRoot);
    expect(frontier).toMatchObject({ size: 2 ** 40 });
    expect(frontier.roots).toHaveLength(1);
  });
});

describe('an inclusion proof', () => {
  it('verifies only for its own leaf, in trees of every size', () => {
    for (let size = 1; size <= 40; size++) {
      const leaves = leavesOf(size);
      const root = treeHash(leaves);
      for (const [index, leaf] of leaves.entries()) {
        const proof = rootsOf(inclusionRanges(index, size), leaves);
        expect(verifyInclusion({ leaf, index, size, root }, proof)).toBe(true);
        expect(verifyInclusion({ leaf: flip(leaf), index, size, root }, proof)).toBe(false);
        expect(verifyInclusion({ leaf, index, size, root: flip(root) }, proof)).toBe(false);
        expect(verifyInclusion({ leaf, index: index + 1, size, root }, proof)).toBe(false);
        expect(verifyInclusion({ leaf, index, size, root }, [...proof, root])).toBe(false);
        if (proof.length > 0) {
          expect(verifyInclusion({ leaf, index, size, root }, proof.slice(1))).toBe(false);
        }
      }
    }
  });

  it.each([-1, 0.5, Number.NaN, 2 ** 60])(
    'is rejected for the leaf index %d in a tree with one leaf',
    (index) => {
      const [leaf = emptyRoot] = leavesOf(1);
      expect(verifyInclusion({ leaf, index, size: 1, root: leaf }, [])).toBe(false);
    },
  );
});

describe('a consistency proof', () => {
  it('verifies between its tree and every smaller size of this tree, but not with a different root', () => {
    for (let size = 1; size <= 32; size++) {
      const leaves = leavesOf(size);
      const root = treeHash(leaves);
      for (let before = 0; before <= size; before++) {
        const beforeRoot = treeHash(leaves.slice(0, before));
        const proof = rootsOf(consistencyRanges(before, size), leaves);
        const claim = { before, beforeRoot, size, root };
        expect(verifyConsistency(claim, proof)).toBe(true);
        expect(verifyConsistency({ ...claim, beforeRoot: flip(beforeRoot) }, proof)).toBe(false);
        expect(verifyConsistency(claim, [...proof, root])).toBe(false);
        if (before > 0) {
          expect(verifyConsistency({ ...claim, root: flip(root) }, proof)).toBe(false);
        }
        if (proof.length > 0) expect(verifyConsistency(claim, proof.slice(1))).toBe(false);
      }
    }
  });

  it('is rejected for a fork of the ledger', () => {
    fc.assert(
      fc.property(fc.integer({ min: 2, max: 60 }), fc.nat(), fc.nat(), (size, a, b) => {
        const before = 1 + (a % (size - 1));
        const changed = b % before;
        const leaves = leavesOf(size);
        const fork = leaves.map((leaf, index) => (index === changed ? flip(leaf) : leaf));
        const beforeRoot = treeHash(leaves.slice(0, before));
        const proof = rootsOf(consistencyRanges(before, size), fork);
        expect(verifyConsistency({ before, beforeRoot, size, root: treeHash(fork) }, proof)).toBe(
          false,
        );
      }),
    );
  });

  it('has a length logarithmic in the size of the tree', () => {
    expect(hex([])).toEqual([]);
    expect(consistencyRanges(999_999, 2_000_000).length).toBeLessThan(25);
    expect(inclusionRanges(1_234_567, 2_000_000).length).toBeLessThan(25);
  });
});
