import { eventHash, placedText } from '../../../shared/ledger/canonical.ts';
import type { EventColumns } from '../../../shared/ledger/columns.ts';
import type { EvidenceEvent, SealedEvent } from '../../../shared/ledger/event.ts';
import { type Frontier, leafOf } from '../../../shared/ledger/merkle.ts';
import { type Tally, tallyOf } from '../../../shared/usage/tally.ts';
import { eventCharactersMax, type SealableEvent } from './check-event.ts';
import { isFlagged } from './dead-letter-flag.ts';

export interface ChainHead {
  readonly seq: number;
  readonly hash: string;
}

/**
 * Maximum number of rows in a batch. Larger batches do not increase throughput, and a statement has
 * at most 65,535 parameters.
 */
export const batchRowsMax = 500;

/** Head of a tenant's ledger: position, tree, and the heads of the chains read so far. */
export interface LedgerState {
  readonly position: number;
  readonly tree: Frontier;
  /** Time of the latest event, in ms since the epoch. */
  readonly latestMs: number;
  readonly chains: { get(chainId: string): ChainHead | undefined };
}

export interface PreparedRow {
  readonly sealed: SealedEvent;
  readonly columns: EventColumns;
}

/** A batch to append. It is discarded if another writer appends first. */
export interface PreparedBatch {
  readonly tenantId: string;
  /** Position of the ledger before the batch. */
  readonly after: number;
  readonly rows: readonly PreparedRow[];
  /** New heads of the changed chains. */
  readonly moved: ReadonlyMap<string, ChainHead>;
  readonly tree: Frontier;
  readonly latestMs: number;
  /** Amounts that the decisions add to budgets. */
  readonly tally: readonly Tally[];
}

const batchCharactersMax = 4 * eventCharactersMax;

/**
 * Assigns position, seq, link and hash to events, in this order and following `state`, up to the
 * size of one batch. `state` must contain the head of every chain of these events. Pure: the same
 * input gives the same batch.
 */
export function prepareBatch(
  tenantId: string,
  state: LedgerState,
  events: readonly SealableEvent[],
): PreparedBatch {
  const rows: PreparedRow[] = [];
  const moved = new Map<string, ChainHead>();
  const tree = state.tree.clone();
  const tally = new BatchTally();
  let latestMs = state.latestMs;
  let characters = 0;
  for (const { event, text, columns } of events) {
    if (characters >= batchCharactersMax || rows.length === batchRowsMax) break;
    const chainId = event.chain_id;
    const head = moved.get(chainId) ?? state.chains.get(chainId);
    if (head === undefined) throw new Error(`the head of chain ${chainId} was not read`);
    const position = state.position + rows.length + 1;
    const seq = head.seq + 1;
    const canonical = placedText(text, position, seq);
    const hash = eventHash(head.hash, canonical);
    rows.push({
      sealed: { tenantId, position, chainId, seq, prevHash: head.hash, eventHash: hash, canonical },
      columns,
    });
    moved.set(chainId, { seq, hash });
    tree.append(leafOf(hash));
    tally.add(event);
    latestMs = Math.max(latestMs, columns.occurredAtMs);
    characters += canonical.length;
  }
  const after = state.position;
  return { tenantId, after, rows, moved, tree, latestMs, tally: tally.rows() };
}

/** Returns the state of the ledger after it contains the batch. */
export function stateAfter(state: LedgerState, batch: PreparedBatch): LedgerState {
  return {
    position: batch.after + batch.rows.length,
    tree: batch.tree,
    latestMs: batch.latestMs,
    chains: { get: (chainId) => batch.moved.get(chainId) ?? state.chains.get(chainId) },
  };
}

/** Sums the amounts that a batch adds to budgets, one row per key. */
class BatchTally {
  readonly #rows = new Map<string, Tally>();

  /**
   * Adds the amounts of an event. An event that is sealed late does not count, because its caller
   * was refused. It does count if its response was stored, because a repeat can still receive that
   * response.
   */
  add(event: EvidenceEvent): void {
    if (isFlagged(event) && event.data.answer_kept !== true) return;
    for (const tally of tallyOf(event)) {
      const { amount, ...key } = tally;
      const text = JSON.stringify(key);
      const known = this.#rows.get(text);
      this.#rows.set(text, known ? { ...known, amount: known.amount + amount } : tally);
    }
  }

  rows(): readonly Tally[] {
    return [...this.#rows.values()];
  }
}
