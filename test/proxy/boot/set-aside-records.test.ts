import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { setAsideRecords } from '../../../proxy/boot/set-aside-records.ts';
import { Spool } from '../../../proxy/spool/spool.ts';
import { silentLog } from '../../../shared/base/log.ts';

let dataDir: string;
beforeEach(() => {
  dataDir = fs.mkdtempSync(join(tmpdir(), 'set-aside-'));
});
afterEach(() => fs.rmSync(dataDir, { recursive: true }));

/** Writes two records of a sidecar; the control plane acknowledged the first `acknowledged` ones. */
async function write(acknowledged: number): Promise<void> {
  const spool = Spool.open({ folder: join(dataDir, 'spool'), log: silentLog, fsync: false });
  for (const id of ['ev_1', 'ev_2']) {
    await spool.append({
      event: {
        id,
        type: 'decision',
        chain_id: 'agent:1',
        occurred_at: '2026-11-20T10:00:00.000Z',
        source: 'sidecar:sc_1',
        data: {},
      },
    });
  }
  if (acknowledged > 0) spool.acknowledge(spool.pending(acknowledged, 1e6).last);
  await spool.close();
  fs.writeFileSync(join(dataDir, 'snapshot.json'), '{}');
}

it('keeps the unsent records of a former sidecar in a folder of their own, and logs their number', async () => {
  await write(1);
  const lines: object[] = [];
  const log = { ...silentLog, error: (fields: object) => lines.push(fields) };
  setAsideRecords({ dataDir, sidecarId: 'sc_1', log });
  const [kept = '', ...others] = fs.readdirSync(dataDir);
  expect(others).toEqual([]);
  expect(kept).toMatch(/^spool-of-sc_1-\d+$/);
  expect(lines).toEqual([{ unsent: 1, folder: join(dataDir, kept) }]);
  const spool = Spool.open({ folder: join(dataDir, 'spool'), log: silentLog, fsync: false });
  expect(spool.written.record).toBe(0);
  await spool.close();
});

it('removes a spool without unsent records, and the snapshot', async () => {
  await write(2);
  setAsideRecords({ dataDir, sidecarId: 'sc_1', log: silentLog });
  expect(fs.readdirSync(dataDir)).toEqual([]);
});

it('changes nothing in a new data directory', () => {
  setAsideRecords({ dataDir, sidecarId: undefined, log: silentLog });
  expect(fs.readdirSync(dataDir)).toEqual([]);
});
