import { eventHash, placedText } from '../../../shared/ledger/canonical.ts';
import type { EventColumns } from '../../../shared/ledger/columns.ts';
import type { EvidenceEvent, SealedEvent } from '../../../shared/ledger/event.ts';
import { type Frontier, leafOf } from '../../../shared/ledger/merkle.ts';
import { type Tally, tallyOf } from '../../../shared/usage/tally.ts';
import { eventCharactersMax, type SealableEvent } from './check-event.ts';
import { isFlagged } from './dead-letter.ts';

export interface ChainHead {
  readonly seq: number;
  readonly hash: string;
}

/** As many rows as a batch takes: more gain nothing, and a statement has 65,535 parameters at most. */
export const batchRowsMax = 500;

/** Where a tenant's ledger ends: its position, its tree, and the heads of the chains looked at so far. */
export interface LedgerState {
  readonly position: number;
  readonly tree: Frontier;
  /** When the latest of all events occurred, in milliseconds since the epoch. */
  readonly latestMs: number;
  readonly chains: { get(chainId: string): ChainHead | undefined };
}

export interface PreparedRow {
  readonly sealed: SealedEvent;
  readonly columns: EventColumns;
}

/** A batch as it will stand in the ledger, if nobody seals before it. */
export interface PreparedBatch {
  readonly tenantId: string;
  /** The position that it follows. */
  readonly after: number;
  readonly rows: readonly PreparedRow[];
  /** The chains that it moves, and where to. */
  readonly moved: ReadonlyMap<string, ChainHead>;
  readonly tree: Frontier;
  readonly latestMs: number;
  /** What its decisions add to budgets. */
  readonly tally: readonly Tally[];
}

const batchCharactersMax = 4 * eventCharactersMax;

/**
 * Gives events, in order, their places after `state`: position, seq, link and hash, as many as
 * one batch takes. Every chain that they name must be in `state`. Pure: the same state and events
 * give the same batch.
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

/** The state once the batch is in the ledger. */
export function stateAfter(state: LedgerState, batch: PreparedBatch): LedgerState {
  return {
    position: batch.after + batch.rows.length,
    tree: batch.tree,
    latestMs: batch.latestMs,
    chains: { get: (chainId) => batch.moved.get(chainId) ?? state.chains.get(chainId) },
  };
}

/** What a batch of events adds to budgets: one row a key. */
class BatchTally {
  readonly #rows = new Map<string, Tally>();

  /**
   * Whoever asked for an event that was sealed late was refused: it counts for nothing, unless the
   * answer was kept, for then whoever asks again gets it.
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
