import { describe, expect, it } from 'vitest';
import type { BundleChain, BundleEvent } from '../../../../shared/ledger/bundle/layout.ts';
import { eventHash } from '../../../../shared/ledger/canonical.ts';
import {
  chainsOf,
  checkpointOf,
  exportOf,
  newKeys,
  type PaperExport,
  type PaperLedger,
  paperLedger,
  proved,
  verifyBytes,
} from '../../../support/ledger/exported.ts';
import { anEvent } from '../../../support/ledger/ledger.ts';

// In this file, the exporter has the right keys but signs false statements: the signature is valid,
// and the content is wrong.

const events = Array.from({ length: 20 }, (_, n) =>
  anEvent({ chain_id: `agent:${n % 3}`, tool: n % 4 === 0 ? 'pay' : 'mail' }),
);
const ledger = paperLedger(events);
const { rows } = ledger;

const rowAt = (position: number): BundleEvent => rows[position - 1] as BundleEvent;
const changed = (event: BundleEvent) => {
  const canonical = event.canonical.replace('"decision":"allow"', '"decision":"deny"');
  return { ...event, canonical };
};
/** Returns the changed event with the hash of its changed text. */
const rehashed = (event: BundleEvent) => {
  const { prev_hash, canonical } = changed(event);
  return { ...changed(event), event_hash: eventHash(prev_hash, canonical) };
};
const replaced = (position: number, event: BundleEvent) => rows.with(position - 1, event);

const verified = async (wanted: PaperExport, from: PaperLedger = ledger, checkpoint?: string) =>
  verifyBytes(await exportOf(from, wanted), from, { checkpoint });

describe('an unfiltered bundle', () => {
  const kept = chainsOf(rows);
  it.each([
    ['content_mismatch', 8, 'agent:1', replaced(8, changed(rowAt(8)))],
    ['link_broken', 11, 'agent:1', replaced(8, rehashed(rowAt(8)))],
    ['head_mismatch', 20, null, replaced(20, rehashed(rowAt(20)))],
    ['hash_mismatch', 8, 'agent:1', replaced(8, { ...rowAt(8), event_hash: rowAt(7).event_hash })],
    ['link_broken', 8, 'agent:1', replaced(8, linkedTo(rowAt(8), rowAt(7)))],
    ['gap', 8, 'agent:1', rows.toSpliced(7, 1)],
    ['truncated', 19, 'agent:0', rows.slice(0, 18)],
    ['truncated', 1, 'agent:0', []],
    ['reordered', 8, 'agent:2', rows.toSpliced(7, 2, moved(rowAt(9), 8), moved(rowAt(8), 9))],
    ['inserted', 21, 'agent:0', [...rows, { ...rowAt(19), position: 21 }]],
  ] as const)('reports %s at position %s', async (kind, position, chain, damaged) => {
    const report = await verified({ events: damaged, chains: kept });
    expect(report).toMatchObject({ ok: false, trusted: true, signed_by: ledger.exportKey.kid });
    expect(report.problems.map((one) => one.kind)).toContain(kind);
    const found = report.problems.find((one) => one.kind === kind);
    expect(found?.position).toBe(position);
    if (chain !== null && kind !== 'truncated') expect(found?.chain_id).toBe(chain);
  });

  it('is rejected if its events belong to another tenant', async () => {
    const other = paperLedger(events, { tenant: 'other', keys: ledger });
    const report = await verified({ events: other.rows });
    expect(report.problem?.kind).toBe('content_mismatch');
  });

  it('is rejected if its checkpoint belongs to another tenant', async () => {
    const other = paperLedger(events, { tenant: 'other', keys: ledger });
    const report = await verified({ checkpoint: checkpointOf(other) });
    expect(report.problem?.kind).toBe('checkpoint_invalid');
  });

  it('is rejected if the computed head of a chain differs from the stated head', async () => {
    const chains = kept.map((end) => ({ ...end, seq: end.seq + 1 }));
    expect((await verified({ chains })).ok).toBe(false);
    expect((await verified({ chains: kept.slice(1) })).problem?.kind).toBe('head_mismatch');
  });

  it('verifies if the ledger is empty', async () => {
    expect(await verified({}, paperLedger([]))).toMatchObject({ ok: true, events: 0 });
  });
});

describe('a filtered bundle', () => {
  const filters = { tool: 'pay' };
  const pays = [1, 5, 9, 13, 17].map((position) => proved(ledger, position));
  const at = (index: number) => pays[index] as BundleEvent;
  const ends = chainsOf(rows);

  it('proves that the ledger includes every event of the bundle', async () => {
    const report = await verified({ filters, events: pays, chains: ends });
    expect(report).toMatchObject({ ok: true, complete: false, events: 5, chains: 3 });
  });

  it.each([
    ['content_mismatch', 5, pays.with(1, changed(at(1)))],
    ['proof_invalid', 5, pays.with(1, rehashed(at(1)))],
    ['proof_invalid', 5, pays.with(1, { ...at(1), proof: at(2).proof })],
    ['proof_invalid', 5, pays.with(1, { ...at(1), proof: undefined })],
    ['proof_invalid', 5, pays.with(1, { ...at(1), proof: at(1).proof?.slice(1) })],
    ['reordered', 5, [at(0), at(1), at(1), at(2)]],
    ['reordered', 5, [at(0), at(2), at(1)]],
    ['reordered', 6, pays.with(1, { ...at(1), position: 6 })],
    ['inserted', 21, [...pays, { ...at(4), position: 21 }]],
    ['filter_mismatch', 6, [at(0), proved(ledger, 6)]],
    ['head_mismatch', null, pays, ends.map((end) => ({ ...end, seq: 1 }))],
  ] as const)(
    'reports %s at position %s',
    async (kind, position, damaged, chains: readonly BundleChain[] = ends) => {
      const report = await verified({ filters, events: damaged, chains });
      expect(report).toMatchObject({ ok: false, trusted: true });
      expect(report.problem).toMatchObject({ kind, position });
    },
  );

  it('reports a broken link between two events if both events are present', async () => {
    const twisted = paperLedger(events, { keys: ledger });
    const second = rehashedOn(twisted.rows[3] as BundleEvent, genesis(twisted));
    const wrong = { ...twisted, rows: twisted.rows.with(3, second) };
    const chosen = [proved(wrong, 1), proved(wrong, 4)];
    const report = await verified({ filters: { chain_id: 'agent:0' }, events: chosen }, wrong);
    expect(report.problem).toMatchObject({ kind: 'link_broken', position: 4, chain_id: 'agent:0' });
  });
});

describe('a checkpoint that an auditor keeps', () => {
  const early = checkpointOf(ledger, 7).note;

  it('matches a ledger to which events were only appended; the report states that the checkpoint was compared', async () => {
    expect(await verified({}, ledger, early)).toMatchObject({ ok: true, anchored: true });
    const now = checkpointOf(ledger).note;
    for (const wanted of [{}, { format: 'csv' as const }]) {
      expect(await verified(wanted, ledger, now)).toMatchObject({ ok: true, anchored: true });
    }
  });

  it('reveals that the history was rewritten, even if the forger had the signing keys', async () => {
    const history = events.with(4, { ...(events[4] as (typeof events)[0]), decision: 'deny' });
    const forged = paperLedger(history, { keys: ledger });
    expect(await verified({}, forged)).toMatchObject({ ok: true, trusted: true });
    const report = await verified({}, forged, early);
    expect(report).toMatchObject({ ok: false, problem: { kind: 'head_mismatch', position: 7 } });
    const sameSize = await verified({ format: 'csv' }, forged, checkpointOf(ledger).note);
    expect(sameSize.problem?.kind).toBe('head_mismatch');
  });

  it('reveals that an older state of the ledger was restored', async () => {
    const older = paperLedger(events.slice(0, 5), { keys: ledger });
    const report = await verified({}, older, early);
    expect(report).toMatchObject({ ok: false, problem: { kind: 'truncated', position: 6 } });
  });

  it('is accepted only if it is signed by a trusted key for this ledger', async () => {
    const unsigned = checkpointOf({ ...ledger, ...newKeys() }, 7).note;
    const foreign = checkpointOf(paperLedger(events, { tenant: 'other', keys: ledger }), 7).note;
    for (const note of [unsigned, foreign, 'no note', '']) {
      const report = await verified({}, ledger, note);
      expect(report).toMatchObject({ ok: false, problem: { kind: 'checkpoint_invalid' } });
    }
  });

  it('is reported as not comparable with a filtered bundle of a different size', async () => {
    const wanted = { filters: { tool: 'pay' }, events: [proved(ledger, 1)] };
    expect((await verified(wanted, ledger, early)).problem?.kind).toBe('not_comparable');
  });
});

describe('the signing key of a bundle', () => {
  it('is not trusted merely because the file contains the key, whatever the name of the key', async () => {
    const forger = paperLedger(events);
    const bytes = await exportOf(forger);
    expect(await verifyBytes(bytes, ledger)).toMatchObject({ ok: true, trusted: false });
    const named = { ...forger.exportKey.publicJwk, kid: ledger.exportKey.kid };
    const exportKey = { ...forger.exportKey, kid: ledger.exportKey.kid, publicJwk: named };
    const renamed = await exportOf({ ...forger, exportKey });
    expect(await verifyBytes(renamed, ledger)).toMatchObject({ ok: false, trusted: false });
    const jwks = [ledger.exportKey.publicJwk];
    expect(await verifyBytes(renamed, ledger, { jwks })).toMatchObject({ ok: false });
  });

  it('is not trusted if it is the checkpoint key, because every key has a single purpose', async () => {
    const bytes = await exportOf({ ...ledger, exportKey: ledger.checkpointKey });
    expect(await verifyBytes(bytes, ledger)).toMatchObject({ ok: true, trusted: false });
  });
});

function linkedTo(event: BundleEvent, other: BundleEvent): BundleEvent {
  return rehashedOn(event, other.event_hash);
}

function rehashedOn(event: BundleEvent, prev_hash: string): BundleEvent {
  return { ...event, prev_hash, event_hash: eventHash(prev_hash, event.canonical) };
}

function moved(event: BundleEvent, position: number): BundleEvent {
  return { ...event, position };
}

function genesis({ rows: [first] }: PaperLedger): string {
  return first?.prev_hash ?? '';
}
