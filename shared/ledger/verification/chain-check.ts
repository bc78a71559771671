import { eventHash } from '../canonical.ts';
import { genesisHash } from '../event.ts';
import type { Problem, ProblemKind } from './problem.ts';

/** A row as far as its chain is concerned. */
export interface LinkedRow {
  readonly position: number;
  readonly chainId: string;
  readonly seq: number;
  readonly prevHash: string;
  readonly eventHash: string;
  readonly canonical: string;
}

/** A problem whose kind, or chain, what follows may still settle. */
export type OpenProblem = { -readonly [Name in keyof Problem]: Problem[Name] };

/** Where a chain stood before the first row of it that is read. */
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
  /** The first problem; later ones of the same chain follow from it more often than not. */
  problem: OpenProblem | undefined;
  /** Of a row whose hash is not that of its text: what the hash would be if the text is right. */
  recomputed: string | undefined;
}

/** Follows the chains of a ledger row by row. Grows with the number of chains, not of rows. */
export class ChainCheck {
  readonly #chains = new Map<string, Chain>();

  get size(): number {
    return this.#chains.size;
  }

  /** Takes the chain up where an earlier verification left it. */
  begin({ chainId, seq, hash, position }: ChainStart): void {
    if (this.#chains.has(chainId)) return;
    const chain = { seq, hash, position, problem: undefined, recomputed: undefined };
    this.#chains.set(chainId, chain);
  }

  /** The problem that this row shows first in its chain, if any. */
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

  /** Compares with where the ledger says that a chain ends. */
  checkEnd(chainId: string, end: { readonly seq: number; readonly hash: string }) {
    const chain = this.#chains.get(chainId);
    if (chain === undefined || chain.seq < end.seq) return 'truncated';
    if (chain.problem !== undefined) {
      settleHash(chain, end.hash);
      return 'known';
    }
    return chain.seq === end.seq && chain.hash === end.hash ? 'fits' : 'head_mismatch';
  }

  /** Every chain that was read. */
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
    return problem(row, 'reordered', `seq ${row.seq} stands where seq ${expected} belongs`);
  }
  const isLinked = row.prevHash === chain.hash;
  if (isLinked && recomputed === row.eventHash) return undefined;
  if (isLinked)
    return problem(row, 'content_mismatch', 'the text does not have the hash kept for it');
  if (recomputed === row.eventHash || eventHash(chain.hash, row.canonical) === row.eventHash) {
    return problem(
      row,
      'link_broken',
      `prev_hash is not the hash of the row before in the chain, at position ${chain.position}`,
    );
  }
  return problem(row, 'content_mismatch', 'neither text nor prev_hash fit the hash kept for them');
}

function settle(row: LinkedRow, chain: Chain): undefined {
  settleHash(chain, row.prevHash);
}

/** Where the successor names the hash that the text has, the text is right and the hash was altered. */
function settleHash(chain: Chain, named: string): void {
  if (chain.problem?.kind !== 'content_mismatch' || chain.recomputed !== named) return;
  chain.problem.kind = 'hash_mismatch';
  chain.problem.message =
    'event_hash is not the hash of the row; its successor names the right one';
}

function problem(row: LinkedRow, kind: ProblemKind, message: string): OpenProblem {
  return { kind, position: row.position, chain_id: row.chainId, message };
}
