import { type LedgerHead, verifyHead } from '../head.ts';
import { Frontier, leafOf } from '../merkle.ts';
import { ChainCheck, type ChainStart, type OpenProblem } from './chain-check.ts';
import { CheckpointComparison } from './checkpoint-comparison.ts';
import type {
  Anchor,
  ChainEnd,
  Checkpoint,
  LedgerEnd,
  Verification,
  VerifiedUpTo,
} from './ledger-source.ts';
import type { ProblemKind, VerificationReport } from './problem.ts';
import { type LedgerRow, rowProblem } from './row-check.ts';

const problemsMax = 100;

/**
 * Verifies a ledger in position order: call `row` for each row, `anchor` after the row at its
 * position, and `finish` last. Recomputes everything from the canonical texts. Memory grows with
 * the number of chains and the logarithm of the ledger's size.
 */
export class LedgerVerifier {
  readonly #tenantId: string;
  readonly #keys: Verification['keys'];
  readonly #chains = new ChainCheck();
  readonly #tree: Frontier;
  readonly #isWhole: boolean;
  readonly #comparison: CheckpointComparison;
  readonly #problems: OpenProblem[] = [];
  #position: number;
  #events = 0;
  #checkpoints = 0;
  #heads = 0;
  #signatures = 0;
  /**
   * The highest position that any source claims; `#signed` is the highest that a signed head
   * covers.
   */
  #statedEnd: number;
  #signed: number;
  #mismatch: OpenProblem | undefined;
  #latestMs: number;
  #lastChainId: string | null = null;

  constructor({ tenantId, keys, from }: Verification) {
    this.#tenantId = tenantId;
    this.#keys = keys;
    this.#isWhole = from === undefined;
    this.#tree = from?.tree.clone() ?? new Frontier();
    this.#position = this.#tree.size;
    this.#comparison = new CheckpointComparison(this.#position);
    this.#statedEnd = this.#position;
    this.#signed = this.#position;
    this.#latestMs = from?.latestMs ?? Number.NEGATIVE_INFINITY;
  }

  get upTo(): VerifiedUpTo {
    return { tree: this.#tree, latestMs: this.#latestMs };
  }

  /** Sets the state of a chain before its first row in this run, if earlier rows are skipped. */
  begin(start: ChainStart): void {
    this.#chains.begin(start);
  }

  row(row: LedgerRow): void {
    this.#checkPosition(row);
    const linked = this.#chains.check(row);
    const placed =
      linked?.kind === 'content_mismatch' ? undefined : rowProblem(row, this.#tenantId);
    // A moved row also breaks links. The report states that the row was moved, because this is more
    // specific.
    const found = placed?.kind === 'reordered' ? placed : (linked ?? placed);
    if (found !== undefined) this.#report(found);
    this.#tree.append(leafOf(row.eventHash));
    this.#position = row.position;
    this.#latestMs = Math.max(this.#latestMs, row.columns?.occurredAtMs ?? this.#latestMs);
    this.#lastChainId = row.chainId;
    this.#comparison.row(row);
    this.#events++;
  }

  /**
   * Compares a checkpoint that does not come from the rows. The caller has verified the
   * checkpoint's signature.
   */
  checkpoint({ position, treeRoot }: Checkpoint): void {
    this.#checkpoints++;
    if (position !== this.#position) {
      this.#comparison.expectEnd(position);
    } else if (treeRoot === this.#root()) {
      this.#comparison.fits(position);
    } else {
      this.#mismatch ??= this.#comparison.rewritten(position);
    }
  }

  /** Reports a stored checkpoint that is unreadable or not signed by this tenant. */
  forgedCheckpoint(position: number): void {
    const message = 'the stored checkpoint is not signed by the tenant';
    this.#report(problem('signature_invalid', position, message));
  }

  /**
   * Compares an anchor's root with the rows. Verifies the anchor's signature only if `isVerified`.
   */
  anchor(anchor: Anchor, isVerified: boolean): void {
    const { position, treeRoot, jws, latestMs } = anchor;
    this.#heads++;
    this.#statedEnd = Math.max(this.#statedEnd, position);
    // If rows are missing, no root can be compared; `row` or `finish` reports the missing rows.
    if (position === this.#position && treeRoot !== this.#root()) {
      this.#mismatch ??= problem(
        'head_mismatch',
        position,
        'the rows up to here do not have the tree root that was sealed',
      );
    }
    if (position === this.#position && (latestMs ?? this.#latestMs) !== this.#latestMs) {
      // Filters by time rely on the stored time.
      const message = 'the time stored with the head is not the time of the latest event';
      this.#mismatch ??= problem('content_mismatch', position, message);
    }
    if (jws === undefined || this.#keys.size === 0) return;
    this.#signed = Math.max(this.#signed, position);
    if (!isVerified) return;
    this.#signatures++;
    const head: LedgerHead = { tenant: this.#tenantId, position, tree_root: treeRoot };
    if (verifyHead(head, jws, this.#keys)) return;
    this.#report(
      problem('signature_invalid', position, 'the head is not signed by a key of the tenant'),
    );
  }

  finish({ head, chainEnds }: LedgerEnd): VerificationReport {
    const end = Math.max(this.#statedEnd, head?.position ?? 0);
    this.#checkEnd(end);
    if (head !== undefined) this.#checkHead(head);
    this.#checkChainEnds(chainEnds);
    const rolledBack = this.#comparison.rolledBack(this.#position);
    // If the ledger itself reports missing rows, that finding is more specific.
    if (rolledBack !== undefined && end <= this.#position) this.#add(rolledBack);
    // A different root only shows that something is wrong, so any other finding is more specific.
    if (this.#problems.length === 0 && this.#mismatch !== undefined) this.#add(this.#mismatch);
    const problems = this.#problems.toSorted((a, b) => a.position - b.position);
    return {
      ok: problems.length === 0,
      events: this.#events,
      chains: this.#chains.size,
      heads: this.#heads,
      checkpoints: this.#checkpoints,
      signatures: this.#signatures,
      position: this.#position,
      tree_root: this.#root(),
      problem: problems[0] ?? null,
      problems: problems.slice(0, problemsMax),
    };
  }

  #checkPosition(row: LedgerRow): void {
    const expected = this.#position + 1;
    if (row.position === expected) return;
    if (row.position < expected) {
      this.#report({
        ...problem('reordered', row.position, 'the position is repeated or out of order'),
        chain_id: row.chainId,
      });
      return;
    }
    const last = row.position - 1;
    const which =
      last === expected ? `position ${expected} is` : `positions ${expected} to ${last} are`;
    this.#add(problem('gap', expected, `${which} missing`));
  }

  #checkEnd(end: number): void {
    if (end <= this.#position) return;
    this.#add(problem('truncated', this.#position + 1, `the ledger should end at ${end}`));
  }

  /**
   * Reports a problem. A gap in a chain is merged into the report of missing rows, if there is one.
   */
  #report(found: OpenProblem): void {
    const missing =
      found.kind === 'gap' && found.chain_id !== null
        ? this.#problems.find((one) => one.kind === 'gap' && one.chain_id === null)
        : undefined;
    if (missing === undefined) {
      this.#add(found);
      return;
    }
    missing.chain_id = found.chain_id;
    missing.message += `; ${found.message}`;
  }

  #add(found: OpenProblem): void {
    // Collects more than it reports, because a later finding may have a lower position.
    if (this.#problems.length < 10 * problemsMax) this.#problems.push(found);
  }

  #checkChainEnds(chainEnds: Iterable<ChainEnd>): void {
    const unseen = new Set(this.#chains.chainIds());
    for (const end of chainEnds) {
      if (!this.#isWhole && !unseen.has(end.chainId)) continue;
      unseen.delete(end.chainId);
      const result = this.#chains.checkEnd(end.chainId, end);
      if (result === 'truncated') this.#truncatedChain(end);
      if (result === 'head_mismatch') {
        const message = 'the chain does not end at the position that the ledger states';
        this.#add({ ...problem('head_mismatch', this.#position, message), chain_id: end.chainId });
      }
    }
    for (const chainId of unseen) {
      const message = 'the ledger does not state the end of this chain';
      this.#add({ ...problem('head_mismatch', this.#position, message), chain_id: chainId });
    }
  }

  #truncatedChain({ chainId, seq }: ChainEnd): void {
    const message = `the chain should end at seq ${seq}`;
    const missing = this.#problems.find(
      (one) => one.chain_id === null && (one.kind === 'gap' || one.kind === 'truncated'),
    );
    if (missing === undefined) {
      this.#add({ ...problem('truncated', this.#position + 1, message), chain_id: chainId });
      return;
    }
    missing.chain_id = chainId;
    missing.message += `; ${message}`;
  }

  #checkHead({
    position,
    treeRoot,
  }: {
    readonly position: number;
    readonly treeRoot: string;
  }): void {
    if (position < this.#position) {
      const message = `the ledger should end at ${position}`;
      this.#add({ ...problem('inserted', position + 1, message), chain_id: this.#lastChainId });
    } else if (position === this.#position && treeRoot !== this.#root()) {
      const message = 'the tree root of the head differs from that of the rows';
      this.#mismatch ??= problem('head_mismatch', position, message);
    }
    if (this.#keys.size > 0 && this.#signed < position) {
      const message = `no signed head covers the rows after ${this.#signed}`;
      this.#add(problem('unsigned', this.#signed + 1, message));
    }
  }

  #root(): string {
    return `sha256:${this.#tree.root().toString('hex')}`;
  }
}

function problem(kind: ProblemKind, position: number, message: string): OpenProblem {
  return { kind, position, chain_id: null, message };
}
