import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  consistencyRanges,
  Frontier,
  inclusionRanges,
  type LeafRange,
  leafHash,
} from '../../../shared/ledger/merkle.ts';
import {
  fold,
  type NodeSpan,
  nodesAt,
  parseTilePath,
  rangeRoot,
  spansOf,
  tilePath,
  tileWidth,
} from '../../../shared/ledger/tiles.ts';

const leaves = Array.from({ length: 70_000 }, (_, n) => leafHash(Buffer.from(String(n))));
const levels: (readonly Buffer[])[] = [leaves];
for (let below = leaves; below.length >= tileWidth; ) {
  const whole = Math.floor(below.length / tileWidth);
  const start = below;
  below = Array.from({ length: whole }, (_, n) =>
    fold(start.slice(n * tileWidth, (n + 1) * tileWidth)),
  );
  levels.push(below);
}

function hashesOf({ level, start, end }: NodeSpan): readonly Buffer[] {
  const hashes = (levels[level] ?? []).slice(start, end);
  expect(hashes).toHaveLength(end - start);
  return hashes;
}

function rootFromLeaves({ start, end }: LeafRange): Buffer {
  const tree = new Frontier();
  for (const leaf of leaves.slice(start, end)) tree.append(leaf);
  return tree.root();
}

const size = fc.integer({ min: 1, max: leaves.length });

describe('the root of a subtree computed from tiles', () => {
  it('equals the root computed from the leaves, for every subtree that a proof needs', () => {
    const anywhere = fc.record({ size, at: fc.nat() });
    fc.assert(
      fc.property(anywhere, ({ size: total, at }) => {
        const ranges = [
          { start: 0, end: total },
          ...inclusionRanges(at % total, total),
          ...consistencyRanges(1 + (at % total), total),
        ];
        for (const range of ranges) {
          expect(rangeRoot(range, hashesOf)).toEqual(rootFromLeaves(range));
        }
      }),
      { numRuns: 15 },
    );
  });

  it('needs only hashes from stored tiles, and for each subtree fewer hashes than a full tile contains', () => {
    fc.assert(
      fc.property(size, (total) => {
        for (const span of spansOf({ start: 0, end: total })) {
          expect(span.end).toBeLessThanOrEqual(nodesAt(span.level, total));
          expect(span.end - span.start).toBeLessThan(tileWidth);
        }
      }),
    );
  });

  it('needs few hashes even for two billion leaves', () => {
    const total = 2_000_000_000;
    const ranges = [...inclusionRanges(1_234_567_890, total), { start: 0, end: total }];
    const hashes = ranges.flatMap(spansOf).map(({ start, end }) => end - start);
    expect(hashes.reduce((sum, one) => sum + one, 0)).toBeLessThan(4 * 2 * tileWidth);
  });
});

describe('the path of a tile', () => {
  it.each([
    [0, '000'],
    [67, '067'],
    [999, '999'],
    [1_000, 'x001/000'],
    [1_234_067, 'x001/x234/067'],
  ])('has the expected form: the path of tile %i is %s', (index, path) => {
    expect(tilePath(index)).toBe(path);
    expect(parseTilePath(path)).toEqual({ index, width: 256 });
    expect(parseTilePath(`${path}.p/3`)).toEqual({ index, width: 3 });
  });

  it('can be parsed back to the tile index, for every index', () => {
    fc.assert(
      fc.property(
        fc.nat({ max: 999_999_999_999 }),
        fc.integer({ min: 1, max: 255 }),
        (index, width) => {
          expect(parseTilePath(`${tilePath(index)}.p/${width}`)).toEqual({ index, width });
        },
      ),
    );
  });

  it.each([
    '',
    '1',
    '0000',
    'x000/001',
    'x001/x000',
    '001/000',
    'x001/1',
    '000.p/0',
    '000.p/256',
    '000.p/01',
    '000.p',
    '000.p/',
    '000/',
    '/000',
    '000\n',
    '٠٠٠',
    '-01',
  ])('is rejected if it is malformed: %j', (path) => {
    expect(parseTilePath(path)).toBeUndefined();
  });
});
