import { afterEach, expect, it } from 'vitest';
import { DiskWatch } from '../../../shared/base/disk-watch.ts';

let watch: DiskWatch | undefined;
afterEach(() => watch?.close());

it('the disk watch warns once each time the free space falls below a tenth of the disk', async () => {
  let freeBytes = 500;
  const warnings: unknown[] = [];
  watch = new DiskWatch({
    folder: '/data',
    space: async () => ({ freeBytes, sizeBytes: 1_000 }),
    probe: async () => {},
    log: { warn: (fields: object) => void warnings.push(fields) },
    now: () => 0,
  });
  const seen: number[] = [];
  for (const free of [500, 100, 99, 50, 0, 100, 99, 98]) {
    freeBytes = free;
    expect(await watch.freeBytes()).toBe(free);
    seen.push(warnings.length);
  }
  expect(seen).toEqual([0, 0, 1, 1, 1, 1, 2, 2]);
  expect(warnings[0]).toEqual({ folder: '/data', free_bytes: 99, size_bytes: 1_000 });
});

it('the disk watch probes the disk at most once a second, and reports the last result in between', async () => {
  let nowMs = 0;
  let probes = 0;
  let isFull = false;
  watch = new DiskWatch({
    folder: '/data',
    space: () => Promise.reject(new Error('no such file system')),
    probe: async () => {
      probes += 1;
      if (isFull) throw new Error('ENOSPC');
    },
    log: { warn: () => {} },
    now: () => nowMs,
  });
  expect(await watch.freeBytes()).toBeNaN();
  expect(await watch.isWritable()).toBe(true);
  isFull = true;
  nowMs = 999;
  expect([await watch.isWritable(), probes]).toEqual([true, 1]);
  nowMs = 1_000;
  expect([await watch.isWritable(), probes]).toEqual([false, 2]);
});
