import fs from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Spool, type SpoolRecord } from '../../../proxy/spool/spool.ts';
import { silentLog } from '../../../shared/base/log.ts';
import { type SmallDisk, smallDisk } from '../../support/programs/small-disk.ts';
import { textsOf } from '../../support/sidecar/spool-lines.ts';

const failed = { code: 'evidence.seal_failed' };
const opened: Spool[] = [];
let disk: SmallDisk;
let folder: string;
let logged: string[];

beforeEach(() => {
  disk = smallDisk();
  folder = join(disk.folder, 'spool');
  logged = [];
});
afterEach(async () => {
  await Promise.all(opened.splice(0).map((spool) => spool.close()));
  disk.close();
});

function open(options: { segmentBytesMax?: number; fsync?: boolean } = {}): Spool {
  const log = { ...silentLog, error: (_fields: object, text: string) => void logged.push(text) };
  const spool = Spool.open({ folder, log, fsync: false, ...options });
  opened.push(spool);
  return spool;
}

const record = (n: number, bytes = 300): SpoolRecord => ({
  event: {
    id: `ev_${n}`,
    type: 'decision',
    chain_id: 'agent:1',
    occurred_at: '2026-11-20T10:00:00.000Z',
    source: 'sidecar:sc_1',
    data: { padding: 'x'.repeat(bytes) },
  },
});

async function write(spool: Spool, from: number, to: number): Promise<void> {
  for (let n = from; n <= to; n++) await spool.append(record(n));
}

/** Appends records until one is refused; returns the ids of the accepted records. */
async function writeUntilRefused(spool: Spool, from: number): Promise<string[]> {
  for (let n = from; ; n++) {
    try {
      await spool.append(record(n));
    } catch (error) {
      expect(error).toMatchObject(failed);
      return ids(from, n - 1);
    }
  }
}

const ids = (from: number, to: number) =>
  Array.from({ length: Math.max(to - from + 1, 0) }, (_, index) => `ev_${from + index}`);

function drain(spool: Spool): string[] {
  const sent: string[] = [];
  while (spool.depth > 0) {
    const { after, lines, last } = spool.pending(50, 1e6);
    expect(after.record).toBe(spool.acked.record);
    sent.push(...textsOf(lines).map((line) => (JSON.parse(line) as SpoolRecord).event.id));
    spool.acknowledge(last);
  }
  return sent;
}

describe.each([false, true])('a spool on a full disk (fsync %s)', (fsync) => {
  it('refuses new records, logs the failure, keeps accepted records, and continues once there is space', async () => {
    const spool = open({ fsync });
    await write(spool, 1, 5);
    disk.fill();
    const accepted = await writeUntilRefused(spool, 6);
    await expect(spool.append(record(900, 9_000))).rejects.toMatchObject(failed);
    expect(logged).toContain('the evidence spool could not be written');
    disk.free();
    await write(spool, 901, 903);
    expect(drain(spool)).toEqual([...ids(1, 5), ...accepted, ...ids(901, 903)]);
  });

  it('leaves no partially written record in the file', async () => {
    const spool = open({ fsync });
    await write(spool, 1, 3);
    disk.fill(3 * 4096);
    // Only a part of this record fits on the disk.
    await expect(spool.append(record(4, 30_000))).rejects.toMatchObject(failed);
    await spool.append(record(5));
    const next = open({ fsync });
    disk.free();
    await next.append(record(6));
    expect(drain(next)).toEqual(['ev_1', 'ev_2', 'ev_3', 'ev_5', 'ev_6']);
    expect(logged).not.toContain('the evidence spool is damaged');
  });

  it('keeps none of the records that are written together if not all of them fit', async () => {
    const spool = open({ fsync });
    await write(spool, 1, 1);
    disk.fill(2 * 4096);
    const together = await Promise.allSettled(
      Array.from({ length: 40 }, (_, n) => spool.append(record(100 + n))),
    );
    expect(together.map(({ status }) => status)).toEqual(together.map(() => 'rejected'));
    disk.free();
    expect(drain(spool)).toEqual(['ev_1']);
  });
});

describe('a disk that is full while records are acknowledged', () => {
  it('is freed by removing sealed segments; records whose acknowledgement was not stored are uploaded again', async () => {
    const spool = open({ segmentBytesMax: 2_000 });
    await write(spool, 1, 100);
    disk.fill();
    expect(drain(spool)).toEqual(ids(1, 100));
    await write(spool, 101, 103);
    const next = open();
    expect(drain(next).slice(-3)).toEqual(ids(101, 103));
    expect(fs.readdirSync(folder).filter((name) => name.startsWith('segment-'))).toHaveLength(1);
  });
});

describe('a spool that cannot create files', () => {
  it('refuses records when its segment is full, and continues once it can create the next segment', async () => {
    const spool = open({ segmentBytesMax: 2_000 });
    await write(spool, 1, 2);
    disk.takeInodes();
    const accepted = await writeUntilRefused(spool, 3);
    await expect(spool.append(record(99))).rejects.toMatchObject(failed);
    disk.free();
    await write(spool, 100, 101);
    expect(drain(spool)).toEqual([...ids(1, 2), ...accepted, ...ids(100, 101)]);
  });

  it('creates the next segment after it removed sealed segments', async () => {
    const spool = open({ segmentBytesMax: 2_000 });
    await write(spool, 1, 20);
    disk.takeInodes();
    await writeUntilRefused(spool, 21);
    const { last } = spool.pending(15, 1e6);
    spool.acknowledge(last);
    await spool.append(record(200));
    expect(drain(spool).at(-1)).toBe('ev_200');
  });
});

describe('a spool whose folder became read-only', () => {
  it('refuses records that need a new file, loses no record, and continues when the folder is writable', async () => {
    const spool = open({ segmentBytesMax: 2_000 });
    await write(spool, 1, 4);
    const thaw = disk.freeze(folder);
    let accepted: string[];
    try {
      accepted = await writeUntilRefused(spool, 5);
      const { lines } = spool.pending(50, 1e6);
      expect(lines).toHaveLength(4 + accepted.length);
      spool.acknowledge(spool.pending(2, 1e6).last);
      expect(logged).toContain('the acknowledged position could not be stored');
    } finally {
      thaw();
    }
    await write(spool, 100, 101);
    expect(drain(spool)).toEqual([...ids(3, 4), ...accepted, ...ids(100, 101)]);
  });

  it('does not open, and reports the reason', () => {
    fs.mkdirSync(folder);
    const thaw = disk.freeze(folder);
    try {
      expect(() => open()).toThrow(/EROFS|read-only/);
    } finally {
      thaw();
    }
    expect(open().depth).toBe(0);
  });
});
