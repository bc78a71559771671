import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { segmentsIn } from '../../../proxy/spool/segment.ts';
import { Spool, type SpoolOptions, type SpoolRecord } from '../../../proxy/spool/spool.ts';
import { silentLog } from '../../../shared/base/log.ts';
import { linkedHash, textsOf } from '../../support/sidecar/spool-lines.ts';

let folder: string;
const opened: Spool[] = [];

beforeEach(() => {
  folder = fs.mkdtempSync(join(tmpdir(), 'spool-'));
});
afterEach(async () => {
  await Promise.all(opened.splice(0).map((spool) => spool.close()));
  fs.rmSync(folder, { recursive: true });
});

function open(options: Partial<SpoolOptions> = {}): Spool {
  const spool = Spool.open({ folder, log: silentLog, fsync: false, ...options });
  opened.push(spool);
  return spool;
}

function record(n: number, padding = ''): SpoolRecord {
  return {
    event: {
      id: `ev_${n}`,
      type: 'decision',
      chain_id: 'agent:1',
      occurred_at: '2026-11-20T10:00:00.000Z',
      source: 'sidecar:sc_1',
      data: { n, padding },
    },
  };
}

function idsOf(lines: readonly Buffer[]): string[] {
  return textsOf(lines).map((line) => (JSON.parse(line) as SpoolRecord).event.id);
}

function drain(spool: Spool, recordsMax = 7, bytesMax = 1e6): string[] {
  const ids: string[] = [];
  while (spool.depth > 0) {
    const { lines, last } = spool.pending(recordsMax, bytesMax);
    ids.push(...idsOf(lines));
    spool.acknowledge(last);
  }
  return ids;
}

const range = (count: number) => Array.from({ length: count }, (_, index) => index + 1);

describe('Spool', () => {
  it('hands out every record once, in order, over many segments', async () => {
    const spool = open({ segmentBytesMax: 2000 });
    await Promise.all(range(100).map((n) => spool.append(record(n, 'x'.repeat(n)))));
    await spool.append(record(101));
    expect(drain(spool)).toEqual(range(101).map((n) => `ev_${n}`));
    expect(segmentsIn(folder)).toHaveLength(1);
  });

  it('links every record to the previous record', async () => {
    const spool = open();
    await Promise.all(range(5).map((n) => spool.append(record(n))));
    const { after, lines, last } = spool.pending(10, 1e6);
    expect(linkedHash(lines, after.hash)).toBe(last.hash);
  });

  it('continues after a restart with the records that were not acknowledged, and no others', async () => {
    const first = open({ segmentBytesMax: 500 });
    await Promise.all(range(20).map((n) => first.append(record(n))));
    first.acknowledge(first.pending(6, 1e6).last);
    const second = open({ segmentBytesMax: 500 });
    await second.append(record(21));
    expect(second.depth).toBe(15);
    expect(drain(second)).toEqual(
      range(21)
        .slice(6)
        .map((n) => `ev_${n}`),
    );
  });

  it('drops a line that a crash left incomplete, but keeps all earlier records', async () => {
    const first = open();
    await Promise.all(range(3).map((n) => first.append(record(n))));
    const segment = segmentsIn(folder)[0];
    fs.appendFileSync(join(folder, segment?.name ?? ''), `${'0'.repeat(64)} {"event":{"id":"ev_4`);
    const second = open();
    await second.append(record(5));
    expect(drain(second)).toEqual(['ev_1', 'ev_2', 'ev_3', 'ev_5']);
  });

  it('refuses records when it is full, and accepts records again after some were sealed', async () => {
    const spool = open({ bytesMax: 3000, segmentBytesMax: 500 });
    const results = await Promise.allSettled(
      range(40).map((n) => spool.append(record(n, 'y'.repeat(100)))),
    );
    for (const n of range(40)) await spool.append(record(100 + n)).catch(() => {});
    const refused = await spool.append(record(999, 'z'.repeat(3000))).catch((error) => error);
    expect(refused).toMatchObject({ code: 'evidence.seal_failed' });
    expect(results.length).toBe(40);
    drain(spool);
    await expect(spool.append(record(1000))).resolves.toBeUndefined();
  });

  it('continues in a new folder if its folder was removed', async () => {
    const spool = open({ tailBytesMax: 0 });
    await spool.append(record(1));
    fs.rmSync(folder, { recursive: true });
    await spool.append(record(3));
    const { after, lines } = spool.pending(10, 1e6);
    expect(idsOf(lines)).toEqual(['ev_3']);
    // The lost records leave a gap in the numbers.
    expect(after.record).toBe(1);
    expect(spool.acked.record).toBe(0);
  });

  it('still hands out the records in memory if its folder was removed', async () => {
    const spool = open();
    await spool.append(record(1));
    fs.rmSync(folder, { recursive: true });
    await spool.append(record(3));
    expect(drain(spool)).toEqual(['ev_1', 'ev_3']);
  });

  it('refuses records while its folder cannot be created again', async () => {
    const spool = open();
    await spool.append(record(1));
    fs.rmSync(folder, { recursive: true });
    fs.writeFileSync(folder, 'in the way');
    for (const n of [2, 3]) {
      await expect(spool.append(record(n))).rejects.toMatchObject({ code: 'evidence.seal_failed' });
    }
    fs.rmSync(folder);
    await spool.append(record(5));
    expect(drain(spool)).toEqual(['ev_1', 'ev_5']);
  });

  it('with fsync, resolves an append only after the disk has the record', async () => {
    const spool = open({ fsync: true });
    await Promise.all(range(10).map((n) => spool.append(record(n))));
    expect(drain(spool)).toHaveLength(10);
  });

  it('refuses records after it was closed', async () => {
    const spool = Spool.open({ folder, log: silentLog, fsync: false });
    await spool.close();
    await expect(spool.append(record(1))).rejects.toMatchObject({ code: 'evidence.seal_failed' });
  });
});
