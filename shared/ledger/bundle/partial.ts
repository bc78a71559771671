import { isJsonObject } from '../../base/json.ts';
import { eventHash } from '../canonical.ts';
import { columnText } from '../columns.ts';
import { genesisHash } from '../event.ts';
import { leafOf, verifyInclusion } from '../merkle.ts';
import type { LedgerRow } from '../verification/row-check.ts';
import { rowProblem } from '../verification/row-check.ts';
import type { BundleChain, BundleEvent } from './layout.ts';
import type { ExportProblem, ExportProblemKind } from './report.ts';
import type { ExportFilters } from './statement.ts';

interface PartialClaim {
  readonly tenant: string;
  readonly filters: ExportFilters;
  readonly size: number;
  readonly root: Buffer;
}

interface ChainState {
  readonly seq: number;
  readonly hash: string;
}

const problemsMax = 100;

/**
 * Verifies events selected from a ledger: the hash of each event, its proof of inclusion in the
 * checkpoint's tree, and its link if its predecessor is included. Memory grows with the number of
 * chains. Omitted events cannot be detected.
 */
export class PartialCheck {
  readonly #claim: PartialClaim;
  readonly #chains = new Map<string, ChainState>();
  readonly problems: ExportProblem[] = [];
  #position = 0;
  events = 0;

  constructor(claim: PartialClaim) {
    this.#claim = claim;
  }

  get chains(): number {
    return this.#chains.size;
  }

  event(event: BundleEvent): void {
    const row = toRow(event);
    const found = this.#judge(event, row);
    if (found !== undefined && this.problems.length < problemsMax) {
      const [kind, message] = found;
      this.problems.push({ kind, position: event.position, chain_id: row.chainId, message });
    }
    this.#chains.set(row.chainId, { seq: row.seq, hash: row.eventHash });
    this.#position = event.position;
    this.events++;
  }

  /**
   * Compares the selected events with the chain heads at the checkpoint: no event may come after
   * the head of its chain.
   */
  finish(ends: readonly BundleChain[]): void {
    const byId = new Map(ends.map((end) => [end.chain_id, end]));
    for (const [chainId, { seq, hash }] of this.#chains) {
      const end = byId.get(chainId);
      if (end !== undefined && (seq < end.seq || (seq === end.seq && hash === end.event_hash))) {
        continue;
      }
      if (this.problems.length >= problemsMax) return;
      const message = 'the chain does not end at the position that the export states';
      this.problems.push({ kind: 'head_mismatch', position: null, chain_id: chainId, message });
    }
  }

  #judge(event: BundleEvent, row: LedgerRow): [ExportProblemKind, string] | undefined {
    const { size, root, tenant, filters } = this.#claim;
    const { position } = event;
    if (position <= this.#position)
      return ['reordered', 'the position is repeated or out of order'];
    if (position > size) return ['inserted', `the ledger ended at ${size}`];
    if (eventHash(row.prevHash, row.canonical) !== row.eventHash) {
      return ['content_mismatch', 'the text does not match the stored hash'];
    }
    const wrong = rowProblem(row, tenant);
    if (wrong !== undefined) return [wrong.kind, wrong.message];
    const leaf = leafOf(row.eventHash);
    const proof = toProof(event.proof);
    const claim = { leaf, index: position - 1, size, root };
    if (proof === undefined || !verifyInclusion(claim, proof)) {
      return ['proof_invalid', 'no valid proof shows that it is in the ledger of the checkpoint'];
    }
    return this.#judgeLink(row) ?? judgeFilters(row.canonical, filters);
  }

  #judgeLink({ chainId, seq, prevHash }: LedgerRow): [ExportProblemKind, string] | undefined {
    const before = this.#chains.get(chainId) ?? { seq: 0, hash: genesisHash };
    if (seq <= before.seq)
      return ['reordered', `seq ${seq} of the chain comes after seq ${before.seq}`];
    if (seq > before.seq + 1 || prevHash === before.hash) return undefined;
    return ['link_broken', 'prev_hash is not the hash of the event before in the chain'];
  }
}

/**
 * Converts an event to a row. Unreadable members get default values, because verification reports
 * such an event in any case.
 */
export function toRow({ position, prev_hash, event_hash, canonical }: BundleEvent): LedgerRow {
  const members = readMembers(canonical);
  return {
    position,
    chainId: typeof members.chain_id === 'string' ? members.chain_id : '',
    seq: typeof members.seq === 'number' ? members.seq : 0,
    prevHash: prev_hash,
    eventHash: event_hash,
    canonical,
  };
}

function judgeFilters(
  canonical: string,
  { from, to, ...equal }: ExportFilters,
): [ExportProblemKind, string] | undefined {
  const event = readMembers(canonical);
  const time = Date.parse(String(event.occurred_at));
  const passes =
    (from === undefined || time >= Date.parse(from)) &&
    (to === undefined || time <= Date.parse(to)) &&
    Object.entries(equal).every(
      ([name, value]) => columnText(String(event[name] ?? '')) === columnText(String(value)),
    );
  return passes
    ? undefined
    : ['filter_mismatch', 'it does not match the filters that the export names'];
}

function readMembers(canonical: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(canonical);
    return isJsonObject(value) ? value : {};
  } catch {
    return {};
  }
}

function toProof(texts: readonly string[] | undefined): readonly Buffer[] | undefined {
  const hashes = texts?.map((text) => Buffer.from(text, 'base64'));
  return hashes?.every(({ length }) => length === 32) === true ? hashes : undefined;
}
