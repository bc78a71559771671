import { eventHash } from '../canonical.ts';
import { genesisHash } from '../event.ts';
import type { Problem, ProblemKind } from './problem.ts';

/** The part of a row that chain verification needs. */
export interface LinkedRow {
  readonly position: number;
  readonly chainId: string;
  readonly seq: number;
  readonly prevHash: string;
  readonly eventHash: string;
  readonly canonical: string;
}

/** A problem whose kind or chain a later row may still change. */
export type OpenProblem = { -readonly [Name in keyof Problem]: Problem[Name] };

/** The state of a chain before its first row in this run. */
export interface ChainStart {
  readonly chainId: string;
  readonly seq: number;
  readonly hash: string;
  readonly position: number;
}

interface Chain {
  seq: number;
  hash: string;
  position: number;
  /** The first problem of the chain; later problems usually follow from the first. */
  problem: OpenProblem | undefined;
  /** The hash of the last row's text, if it differs from the row's `event_hash`. */
  recomputed: string | undefined;
}

/**
 * Verifies the chains of a ledger row by row. Memory grows with the number of chains, not of rows.
 */
export class ChainCheck {
  readonly #chains = new Map<string, Chain>();

  get size(): number {
    return this.#chains.size;
  }

  /** Resumes a chain at the head of an earlier verification. */
  begin({ chainId, seq, hash, position }: ChainStart): void {
    if (this.#chains.has(chainId)) return;
    const chain = { seq, hash, position, problem: undefined, recomputed: undefined };
    this.#chains.set(chainId, chain);
  }

  /**
   * Returns the first problem of the row's chain if this row reveals it; later problems of the
   * chain are ignored.
   */
  check(row: LinkedRow): OpenProblem | undefined {
    const chain = this.#chains.get(row.chainId) ?? {
      seq: 0,
      hash: genesisHash,
      position: 0,
      problem: undefined,
      recomputed: undefined,
    };
    this.#chains.set(row.chainId, chain);
    const recomputed = eventHash(row.prevHash, row.canonical);
    const found = chain.problem === undefined ? judge(row, chain, recomputed) : settle(row, chain);
    chain.problem ??= found;
    chain.seq = row.seq;
    chain.hash = row.eventHash;
    chain.position = row.position;
    chain.recomputed = recomputed === row.eventHash ? undefined : recomputed;
    return found;
  }

  /** Compares a chain with the chain head that the ledger states. */
  checkEnd(chainId: string, end: { readonly seq: number; readonly hash: string }) {
    const chain = this.#chains.get(chainId);
    if (chain === undefined || chain.seq < end.seq) return 'truncated';
    if (chain.problem !== undefined) {
      settleHash(chain, end.hash);
      return 'known';
    }
    return chain.seq === end.seq && chain.hash === end.hash ? 'fits' : 'head_mismatch';
  }

  /** The ids of all chains that were read. */
  chainIds(): Iterable<string> {
    return this.#chains.keys();
  }
}

function judge(row: LinkedRow, chain: Chain, recomputed: string): OpenProblem | undefined {
  const expected = chain.seq + 1;
  if (row.seq > expected) {
    return problem(row, 'gap', `seq ${expected} of the chain is missing before seq ${row.seq}`);
  }
  if (row.seq < expected) {
    return problem(row, 'reordered', `seq ${row.seq} is in the place of seq ${expected}`);
  }
  const isLinked = row.prevHash === chain.hash;
  if (isLinked && recomputed === row.eventHash) return undefined;
  if (isLinked) return problem(row, 'content_mismatch', 'the text does not match the stored hash');
  if (recomputed === row.eventHash || eventHash(chain.hash, row.canonical) === row.eventHash) {
    return problem(
      row,
      'link_broken',
      `prev_hash is not the hash of the row before in the chain, at position ${chain.position}`,
    );
  }
  return problem(row, 'content_mismatch', 'neither text nor prev_hash match the stored hash');
}

function settle(row: LinkedRow, chain: Chain): undefined {
  settleHash(chain, row.prevHash);
}

/**
 * Refines a `content_mismatch`: if the next row's `prev_hash` is the recomputed hash, the text is
 * intact and the stored hash was altered.
 */
function settleHash(chain: Chain, named: string): void {
  if (chain.problem?.kind !== 'content_mismatch' || chain.recomputed !== named) return;
  chain.problem.kind = 'hash_mismatch';
  chain.problem.message = 'event_hash is not the hash of the row; the next row names the right one';
}

function problem(row: LinkedRow, kind: ProblemKind, message: string): OpenProblem {
  return { kind, position: row.position, chain_id: row.chainId, message };
}
