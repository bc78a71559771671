import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Spool, type SpoolRecord } from '../../../proxy/spool/spool.ts';
import { Uploader } from '../../../proxy/spool/uploader.ts';
import { silentLog } from '../../../shared/base/log.ts';
import { canonicalJson } from '../../../shared/crypto/jcs.ts';
import { verifyJws } from '../../../shared/crypto/jws.ts';
import { generateSigningKey, verificationKeys } from '../../../shared/crypto/signing-key.ts';
import {
  type SpoolHead,
  type SpoolPosition,
  spoolHeadType,
  spoolLinkHash,
} from '../../../shared/ledger/spool-head.ts';
import { until } from '../../support/programs/processes.ts';
import { linkedHash, textsOf } from '../../support/sidecar/spool-lines.ts';

const key = generateSigningKey();
let folder: string;
let spool: Spool;

beforeEach(() => {
  folder = fs.mkdtempSync(join(tmpdir(), 'spool-'));
  spool = Spool.open({ folder, log: silentLog, fsync: false, segmentBytesMax: 3000 });
});
afterEach(async () => {
  await spool.close();
  fs.rmSync(folder, { recursive: true });
});

const record = (n: number): SpoolRecord => ({
  event: {
    id: `ev_${n}`,
    type: 'decision',
    chain_id: 'agent:1',
    occurred_at: '2026-11-20T10:00:00.000Z',
    source: 'sidecar:sc_1',
    data: { n },
  },
});

/** Handles an upload as the control plane does: verifies signature and links, and then seals. */
function ledger() {
  const sealed: string[] = [];
  return {
    sealed,
    seal(segment: string, records: readonly SpoolRecord[]): SpoolPosition {
      const head = verifyJws(segment, spoolHeadType, verificationKeys([key.publicJwk]));
      if (!head.ok) throw new Error(head.detail);
      const { after, last } = head.payload as unknown as SpoolHead;
      for (const position of [after, last]) {
        expect(Object.keys(position).sort()).toEqual(['hash', 'record']);
      }
      const hash = records.reduce(
        (before, one) => spoolLinkHash(before, canonicalJson(one)),
        after.hash,
      );
      expect({ record: after.record + records.length, hash }).toEqual(last);
      for (const { event } of records) if (!sealed.includes(event.id)) sealed.push(event.id);
      return last;
    },
  };
}

function start(
  upload: (segment: string, records: readonly SpoolRecord[]) => Promise<SpoolPosition>,
): Uploader {
  return new Uploader({
    spool,
    sidecarId: 'sc_1',
    key,
    upload: async (segment, lines) => ({
      acked: await upload(
        segment,
        textsOf(lines).map((line) => JSON.parse(line) as SpoolRecord),
      ),
    }),
    log: silentLog,
  });
}

const ids = (count: number) => Array.from({ length: count }, (_, index) => `ev_${index + 1}`);

describe('Uploader', () => {
  it('uploads every record in order, with valid links and signatures', async () => {
    const { sealed, seal } = ledger();
    const uploader = start(async (segment, records) => seal(segment, records));
    for (let n = 1; n <= 50; n++) await spool.append(record(n));
    await until('all is sealed', () => spool.depth === 0);
    await uploader.close();
    expect(sealed).toEqual(ids(50));
  });

  it('repeats an upload whose response was lost, and skips no record', async () => {
    const { sealed, seal } = ledger();
    let tries = 0;
    const uploader = start(async (segment, records) => {
      const position = seal(segment, records);
      tries += 1;
      if (tries <= 2) throw new Error('the connection broke');
      return position;
    });
    await Promise.all(Array.from({ length: 20 }, (_, n) => spool.append(record(n + 1))));
    await until('all is sealed', () => spool.depth === 0);
    await uploader.close();
    expect(sealed).toEqual(ids(20));
    expect(tries).toBeGreaterThan(2);
  });

  it('skips the records that the control plane has already sealed', async () => {
    const { sealed, seal } = ledger();
    let first = true;
    const uploader = start(async (segment, records) => {
      if (!first) return seal(segment, records);
      first = false;
      const { lines } = spool.pending(2, 1e6);
      const hash = linkedHash(lines, spool.acked.hash);
      sealed.push(...textsOf(lines).map((line) => (JSON.parse(line) as SpoolRecord).event.id));
      return { record: spool.acked.record + lines.length, hash };
    });
    await Promise.all(Array.from({ length: 10 }, (_, n) => spool.append(record(n + 1))));
    await until('all is sealed', () => spool.depth === 0);
    await uploader.close();
    expect(sealed).toEqual(ids(10));
  });

  it('removes no record if the control plane acknowledges records that were never sent', async () => {
    const uploader = start(async () => ({ record: 999, hash: 'f'.repeat(64) }));
    await spool.append(record(1));
    await until('it was tried', () => spool.depth === 1);
    await uploader.close();
    expect(spool.depth).toBe(1);
  });

  it('sends the remaining records when it closes', async () => {
    const { sealed, seal } = ledger();
    const uploader = start(async (segment, records) => seal(segment, records));
    void spool.append(record(1));
    await spool.append(record(2));
    await uploader.close();
    expect(sealed).toEqual(ids(2));
  });
});
