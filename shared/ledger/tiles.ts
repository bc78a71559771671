import { Frontier, type LeafRange, nodeHash } from './merkle.ts';

// Tiles (c2sp.org/tlog-tiles): the hashes of every eighth level of the tree, 256 in each tile.

export const tileWidth = 256;

/** Hashes of one tile level, from `start` up to but not including `end`. Level 0 has the leaves. */
export interface NodeSpan {
  readonly level: number;
  readonly start: number;
  readonly end: number;
}

/** Number of leaves below one hash of a tile level. */
export function leavesBelow(level: number): number {
  return tileWidth ** level;
}

/** Number of hashes that a tree has at a tile level. */
export function nodesAt(level: number, size: number): number {
  return Math.floor(size / leavesBelow(level));
}

/**
 * The hashes that determine the root of a subtree: one span for each full subtree in it, largest
 * first. `start` must be a multiple of the size of the largest full subtree, as in proofs.
 */
export function spansOf({ start, end }: LeafRange): readonly NodeSpan[] {
  const spans: NodeSpan[] = [];
  for (let from = start; from < end; ) {
    let [height, leaves] = [0, 1];
    while (leaves * 2 <= end - from) [height, leaves] = [height + 1, leaves * 2];
    const level = Math.floor(height / 8);
    const below = leavesBelow(level);
    spans.push({ level, start: from / below, end: (from + leaves) / below });
    from += leaves;
  }
  return spans;
}

/** The root of a subtree, computed from the hashes of its spans. */
export function rangeRoot(
  range: LeafRange,
  hashesOf: (span: NodeSpan) => readonly Buffer[],
): Buffer {
  const roots = spansOf(range).map((span) => fold(hashesOf(span)));
  const smallest = roots.pop();
  if (smallest === undefined) return fold([]);
  return roots.reduceRight((right, left) => nodeHash(left, right), smallest);
}

/** The root over the hashes of one level. */
export function fold(hashes: readonly Buffer[]): Buffer {
  const tree = new Frontier();
  for (const one of hashes) tree.append(one);
  return tree.root();
}

/** The path of a tile in its level: `x001/x234/067` for 1234067. */
export function tilePath(index: number): string {
  const digits = String(index).padStart(3, '0');
  const groups = digits.padStart(Math.ceil(digits.length / 3) * 3, '0').match(/\d{3}/g) ?? [];
  return groups.map((group, at) => (at === groups.length - 1 ? group : `x${group}`)).join('/');
}

interface TilePlace {
  readonly index: number;
  /** Number of requested hashes: 256, or fewer for a partial tile. */
  readonly width: number;
}

/** Parses `<index>` or `<index>.p/<width>`; undefined if the text is not a tile path. */
export function parseTilePath(path: string): TilePlace | undefined {
  const [, place = '', widthText] =
    /^((?:x\d{3}\/){0,4}\d{3})(?:\.p\/([1-9]\d{0,2}))?$/.exec(path) ?? [];
  const index = Number(place.replaceAll(/[x/]/g, ''));
  const width = widthText === undefined ? tileWidth : Number(widthText);
  // Refuses superfluous leading zeros, so that each tile has one path.
  if (place === '' || tilePath(index) !== place) return undefined;
  if (widthText !== undefined && width >= tileWidth) return undefined;
  return { index, width };
}
