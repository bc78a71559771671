import { generateSigningKey, type SigningKey } from '../../../shared/crypto/signing-key.ts';
import type { BundleChain, BundleEvent } from '../../../shared/ledger/bundle/layout.ts';
import type { ExportFile } from '../../../shared/ledger/bundle/read.ts';
import type { ExportReport } from '../../../shared/ledger/bundle/report.ts';
import type { ExportFilters } from '../../../shared/ledger/bundle/statement.ts';
import { type ExportTrust, verifyExport } from '../../../shared/ledger/bundle/verify.ts';
import { type ExportPlan, writeExport } from '../../../shared/ledger/bundle/write.ts';
import { canonicalEvent, eventHash } from '../../../shared/ledger/canonical.ts';
import { signCheckpoint } from '../../../shared/ledger/checkpoint.ts';
import { type EvidenceEvent, genesisHash } from '../../../shared/ledger/event.ts';
import { Frontier, inclusionRanges, leafOf } from '../../../shared/ledger/merkle.ts';

/** A tenant's ledger in memory, with the keys of its installation. */
export interface PaperLedger {
  readonly tenant: string;
  readonly rows: readonly BundleEvent[];
  readonly exportKey: SigningKey;
  readonly checkpointKey: SigningKey;
}

type Keys = Pick<PaperLedger, 'exportKey' | 'checkpointKey'>;

export function newKeys(): Keys {
  return { exportKey: generateSigningKey(), checkpointKey: generateSigningKey() };
}

/** Seals events in memory, as the ledger does. */
export function paperLedger(
  events: readonly EvidenceEvent[],
  { tenant = 'acme', keys = newKeys() }: { readonly tenant?: string; readonly keys?: Keys } = {},
): PaperLedger {
  const chains = new Map<string, { readonly seq: number; readonly hash: string }>();
  const rows = events.map((event, index) => {
    const before = chains.get(event.chain_id) ?? { seq: 0, hash: genesisHash };
    const place = { tenantId: tenant, position: index + 1, seq: before.seq + 1 };
    const canonical = canonicalEvent(event, place);
    const hash = eventHash(before.hash, canonical);
    chains.set(event.chain_id, { seq: place.seq, hash });
    return { position: place.position, prev_hash: before.hash, event_hash: hash, canonical };
  });
  const { exportKey, checkpointKey } = keys;
  return { tenant, rows, exportKey, checkpointKey };
}

function treeOf(rows: readonly BundleEvent[]): Frontier {
  const tree = new Frontier();
  for (const { event_hash } of rows) tree.append(leafOf(event_hash));
  return tree;
}

/** Signs a checkpoint of the first `size` rows. */
export function checkpointOf({ tenant, rows, checkpointKey }: PaperLedger, size = rows.length) {
  const root = treeOf(rows.slice(0, size)).root();
  const note = signCheckpoint({ origin: `gw.example/t/${tenant}`, size, root }, checkpointKey);
  return { note, size, root: `sha256:${root.toString('hex')}` };
}

export interface PaperExport {
  readonly format?: ExportPlan['format'];
  readonly dialect?: ExportPlan['dialect'];
  readonly filters?: ExportFilters;
  /**
   * The rows in the order in which they are written. Default: all rows, with proofs if there are
   * filters.
   */
  readonly events?: readonly BundleEvent[];
  readonly chains?: readonly BundleChain[];
  readonly checkpoint?: ExportPlan['checkpoint'];
}

/**
 * Returns the bytes of an export of a ledger. They are signed with the ledger's keys even if the
 * content is wrong.
 */
export async function exportOf(ledger: PaperLedger, wanted: PaperExport = {}): Promise<Buffer> {
  const { format = 'json', dialect, filters = {}, checkpoint = checkpointOf(ledger) } = wanted;
  const events = wanted.events ?? ledger.rows;
  const chains = wanted.chains ?? chainsOf(events);
  const plan: ExportPlan = {
    tenant: ledger.tenant,
    format,
    dialect,
    filters,
    checkpoint,
    createdAt: '2026-11-21T10:00:00.000Z',
    keys: [ledger.exportKey.publicJwk, ledger.checkpointKey.publicJwk],
  };
  const source = {
    async *pages() {
      for (let at = 0; at < events.length; at += 7) yield events.slice(at, at + 7);
    },
    async *chains() {
      yield chains;
    },
  };
  const parts: Buffer[] = [];
  for await (const part of writeExport(plan, source, ledger.exportKey)) parts.push(part);
  return Buffer.concat(parts);
}

/** Returns a row with its proof in the tree of all rows. */
export function proved({ rows }: PaperLedger, position: number): BundleEvent {
  const row = rows[position - 1];
  if (row === undefined) throw new RangeError(`no row ${position}`);
  const proof = inclusionRanges(position - 1, rows.length).map(({ start, end }) =>
    treeOf(rows.slice(start, end)).root().toString('base64'),
  );
  return { ...row, proof };
}

export function chainsOf(rows: readonly BundleEvent[]): readonly BundleChain[] {
  const ends = new Map(
    rows.map(({ canonical, event_hash }) => {
      const { chain_id, seq } = JSON.parse(canonical) as { chain_id: string; seq: number };
      return [chain_id, { chain_id, seq, event_hash }];
    }),
  );
  return [...ends.values()];
}

export function fileOf(bytes: Uint8Array, partBytes = 1_000): ExportFile {
  return {
    size: bytes.length,
    read: async (start, end) => bytes.subarray(start, end),
    async *parts(end) {
      for (let at = 0; at < end; at += partBytes) {
        yield bytes.subarray(at, Math.min(at + partBytes, end));
      }
    },
  };
}

/** Verifies an export. Trusts the ledger's export key. */
export function verifyBytes(
  bytes: Uint8Array,
  ledger: Keys,
  trust: Partial<ExportTrust> = {},
): Promise<ExportReport> {
  const thumbprints = new Set([ledger.exportKey.kid]);
  return verifyExport(fileOf(bytes), { thumbprints, jwks: [], ...trust });
}
