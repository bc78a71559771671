import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { storePosition } from '../../../proxy/spool/position-file.ts';
import { Spool, type SpoolRecord } from '../../../proxy/spool/spool.ts';
import { Uploader } from '../../../proxy/spool/uploader.ts';
import { silentLog } from '../../../shared/base/log.ts';
import { generateSigningKey } from '../../../shared/crypto/signing-key.ts';
import { until } from '../../support/programs/processes.ts';
import { linkedHash, textsOf } from '../../support/sidecar/spool-lines.ts';

let folder: string;
const opened: Spool[] = [];

beforeEach(() => {
  folder = fs.mkdtempSync(join(tmpdir(), 'spool-'));
});
afterEach(async () => {
  vi.restoreAllMocks();
  await Promise.all(opened.splice(0).map((spool) => spool.close()));
  fs.rmSync(folder, { recursive: true });
});

/** Opens the spool without a tail in memory, so that all records are read from the disk. */
function open(
  options: { segmentBytesMax?: number; fsync?: boolean; tailBytesMax?: number } = {},
): Spool {
  const spool = Spool.open({ folder, log: silentLog, fsync: false, tailBytesMax: 0, ...options });
  opened.push(spool);
  return spool;
}

const record = (n: number, paddingBytes = 0): SpoolRecord => ({
  event: {
    id: `ev_${n}`,
    type: 'decision',
    chain_id: 'agent:1',
    occurred_at: '2026-11-20T10:00:00.000Z',
    source: 'sidecar:sc_1',
    data: { n, padding: 'x'.repeat(paddingBytes) },
  },
});

const ids = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, index) => `ev_${from + index}`);

/** Accepts batches as the control plane does: if they are complete, and correctly linked and numbered. */
function drain(spool: Spool): { sent: string[]; gaps: number[] } {
  const sent: string[] = [];
  const gaps: number[] = [];
  let acked = spool.acked.record;
  while (spool.depth > 0) {
    const { after, lines, last } = spool.pending(1000, 3 * 1024 ** 2);
    if (lines.length > 0) {
      expect(last.record - after.record).toBe(lines.length);
      expect(linkedHash(lines, after.hash)).toBe(last.hash);
      if (after.record > acked) gaps.push(after.record);
      acked = last.record;
    }
    expect(last.record).toBeGreaterThan(spool.acked.record);
    sent.push(...textsOf(lines).map((line) => (JSON.parse(line) as SpoolRecord).event.id));
    spool.acknowledge(last);
  }
  return { sent, gaps };
}

async function write(spool: Spool, from: number, to: number, paddingBytes = 0): Promise<void> {
  for (let n = from; n <= to; n++) await spool.append(record(n, paddingBytes));
}

const segmentFiles = () =>
  fs
    .readdirSync(folder)
    .filter((name) => name.startsWith('segment-'))
    .sort()
    .map((name) => join(folder, name));

describe('the spool hands out every record in order', () => {
  it('if records are so large that a batch ends within a segment and more segments follow', async () => {
    const spool = open();
    await write(spool, 1, 1000, 20_000);
    expect(drain(spool)).toEqual({ sent: ids(1, 1000), gaps: [] });
  });

  it('if it is opened again after megabytes of a segment were acknowledged', async () => {
    const first = open();
    await write(first, 1, 350, 20_000);
    while (first.acked.record < 300) first.acknowledge(first.pending(50, 3 * 1024 ** 2).last);
    const second = open();
    expect(drain(second)).toEqual({ sent: ids(first.acked.record + 1, 350), gaps: [] });
  });
});

describe('a damaged spool', () => {
  it.each([
    ['truncated', '{"record":3,"ha'],
    ['empty', ''],
    ['malformed', '{"record":-1,"hash":"x"}'],
  ])('uploads its records again if the acknowledged position is %s', async (_what, text) => {
    const first = open({ segmentBytesMax: 500 });
    await write(first, 1, 20);
    first.acknowledge(first.pending(6, 1e6).last);
    fs.writeFileSync(join(folder, 'acked.json'), text);
    const { sent, gaps } = drain(open({ segmentBytesMax: 500 }));
    expect(sent).toEqual(expect.arrayContaining(ids(7, 20)));
    expect(gaps).toEqual([]);
  });

  it('uploads its records again if the acknowledged position was removed', async () => {
    const first = open({ segmentBytesMax: 500 });
    await write(first, 1, 20);
    first.acknowledge(first.pending(6, 1e6).last);
    fs.rmSync(join(folder, 'acked.json'));
    const { sent, gaps } = drain(open({ segmentBytesMax: 500 }));
    expect(sent).toEqual(expect.arrayContaining(ids(7, 20)));
    expect(gaps).toEqual([]);
  });

  it('uploads new records if the acknowledged position lies past the end', async () => {
    await write(open(), 1, 3);
    storePosition(folder, { record: 1000, hash: 'a'.repeat(64) });
    const second = open();
    await second.append(record(4));
    expect(drain(second).sent).toEqual(['ev_4']);
  });

  it('uploads every record again if a power loss corrupted the acknowledged position', async () => {
    const first = open();
    await write(first, 1, 3);
    const { last } = first.pending(2, 3 * 1024 ** 2);
    storePosition(folder, last);
    const file = join(folder, 'acked.json');
    // The file now contains the new number with the hash of the previous position.
    fs.writeFileSync(file, fs.readFileSync(file, 'utf8').replace('"record":2', '"record":3'));
    expect(drain(open()).sent).toEqual(ids(1, 3));
  });

  it('uploads all records except for a changed one, reports the gap, and keeps the file', async () => {
    const spool = open();
    await write(spool, 1, 10);
    const [file = ''] = segmentFiles();
    fs.writeFileSync(file, fs.readFileSync(file, 'utf8').replace('"ev_5"', '"ev_X"'));
    const { sent, gaps } = drain(spool);
    expect(sent).toEqual([...ids(1, 4), ...ids(6, 10)]);
    expect(gaps).toEqual([5]);
    expect(fs.readdirSync(folder).some((name) => name.startsWith('damaged-'))).toBe(true);
  });

  it('uploads the records that are still in memory, even if the file was changed', async () => {
    const spool = open({ tailBytesMax: 10_000 });
    await write(spool, 1, 5);
    const [file = ''] = segmentFiles();
    fs.writeFileSync(file, fs.readFileSync(file, 'utf8').replaceAll('"ev_', '"xx_'));
    expect(drain(spool).sent).toEqual(ids(1, 5));
    await write(spool, 6, 7);
    expect(drain(spool).sent).toEqual(ids(6, 7));
  });

  it('does not upload the last record if it was changed, and continues', async () => {
    const spool = open();
    await write(spool, 1, 3);
    const [file = ''] = segmentFiles();
    fs.writeFileSync(file, fs.readFileSync(file, 'utf8').replace('"ev_3"', '"ev_X"'));
    expect(drain(spool).sent).toEqual(ids(1, 2));
    await write(spool, 4, 5);
    expect(drain(spool).sent).toEqual(ids(4, 5));
  });

  it('uploads the later segments even if a line break is missing', async () => {
    const first = open({ segmentBytesMax: 500 });
    await write(first, 1, 20);
    const [file = ''] = segmentFiles();
    fs.writeFileSync(file, fs.readFileSync(file, 'utf8').replace('\n', ' '));
    const { sent, gaps } = drain(open({ segmentBytesMax: 500 }));
    expect(sent.at(-1)).toBe('ev_20');
    expect(gaps.length).toBeGreaterThan(0);
  });
});

describe('a spool on a failing disk', () => {
  it('neither keeps nor uploads a record whose fsync failed, and accepts the next record', async () => {
    const spool = open({ fsync: true });
    await write(spool, 1, 2);
    vi.spyOn(fs, 'fdatasync').mockImplementationOnce((_fd, done) => done(new Error('EIO')));
    await expect(spool.append(record(3))).rejects.toMatchObject({ code: 'evidence.seal_failed' });
    await write(spool, 4, 5);
    expect(drain(spool).sent).toEqual(['ev_1', 'ev_2', 'ev_4', 'ev_5']);
    await spool.append(record(6));
    expect(drain(open()).sent).toEqual(['ev_6']);
  });

  it('uploads no record before its fsync completed', async () => {
    const spool = open({ fsync: true });
    let finish = () => {};
    vi.spyOn(fs, 'fdatasync').mockImplementationOnce((_fd, done) => {
      finish = () => done(null);
    });
    const written = spool.append(record(1));
    await new Promise((resolve) => setImmediate(resolve));
    await new Promise((resolve) => setImmediate(resolve));
    expect(spool.depth).toBe(0);
    expect(spool.pending(10, 1e6).lines).toEqual([]);
    finish();
    await written;
    expect(spool.depth).toBe(1);
  });

  it('removes acknowledged segments even if the acknowledged position cannot be stored', async () => {
    const spool = open({ segmentBytesMax: 500 });
    await write(spool, 1, 20);
    const write2 = fs.writeFileSync;
    vi.spyOn(fs, 'writeFileSync').mockImplementation((path, ...rest) => {
      if (String(path).includes('acked.json')) throw new Error('ENOSPC');
      write2(path, ...rest);
    });
    expect(drain(spool).sent).toEqual(ids(1, 20));
    expect(segmentFiles()).toHaveLength(1);
    vi.restoreAllMocks();
    const second = open();
    expect(second.depth).toBe(0);
    await write(second, 21, 22);
    expect(drain(second)).toEqual({ sent: ids(21, 22), gaps: [] });
  });
});

describe('a misbehaving control plane', () => {
  it('is not called in a busy loop if it acknowledges no new record, and all records are kept', async () => {
    const spool = open();
    await spool.append(record(1));
    let asked = 0;
    const uploader = new Uploader({
      spool,
      sidecarId: 'sc_1',
      key: generateSigningKey(),
      upload: async () => {
        asked += 1;
        return { acked: { record: 0, hash: '0'.repeat(64) } };
      },
      log: silentLog,
    });
    await until('it was asked', () => asked > 0);
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(asked).toBe(1);
    await uploader.close();
    expect(spool.depth).toBe(1);
  });

  it('does not prevent the sidecar from exiting if it never responds', async () => {
    const spool = open();
    await spool.append(record(1));
    const uploader = new Uploader({
      spool,
      sidecarId: 'sc_1',
      key: generateSigningKey(),
      upload: () => new Promise(() => {}),
      log: silentLog,
    });
    const before = performance.now();
    await uploader.close();
    expect(performance.now() - before).toBeLessThan(7_000);
    expect(spool.depth).toBe(1);
  });
});
