import { type LedgerHead, verifyHead } from '../head.ts';
import { Frontier, leafOf } from '../merkle.ts';
import { ChainCheck, type ChainStart, type OpenProblem } from './chain-check.ts';
import type {
  Anchor,
  ChainEnd,
  Checkpoint,
  LedgerEnd,
  Verification,
  VerifiedUpTo,
} from './ledger-source.ts';
import type { ProblemKind, VerificationReport } from './problem.ts';
import { type LedgerRow, misplaced } from './row-check.ts';
import { Witnessed } from './witnessed.ts';

const problemsMax = 100;

/**
 * Verifies a ledger that is handed over in position order, `row` by `row`, each anchor after the
 * row at its position, `finish` last. Recomputes everything from the canonical texts. Holds one
 * entry per chain and one hash per doubling of the ledger, whatever its size.
 */
export class LedgerVerifier {
  readonly #tenantId: string;
  readonly #keys: Verification['keys'];
  readonly #chains = new ChainCheck();
  readonly #tree: Frontier;
  readonly #isWhole: boolean;
  readonly #witnessed: Witnessed;
  readonly #problems: OpenProblem[] = [];
  #position: number;
  #events = 0;
  #checkpoints = 0;
  #heads = 0;
  #signatures = 0;
  /** How far anything said that the ledger reaches, and how far a signed head did. */
  #said: number;
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
    this.#witnessed = new Witnessed(this.#position);
    this.#said = this.#position;
    this.#signed = this.#position;
    this.#latestMs = from?.latestMs ?? Number.NEGATIVE_INFINITY;
  }

  get upTo(): VerifiedUpTo {
    return { tree: this.#tree, latestMs: this.#latestMs };
  }

  /** Where a chain stood before the first row of it that is read, when earlier rows are not. */
  begin(start: ChainStart): void {
    this.#chains.begin(start);
  }

  row(row: LedgerRow): void {
    this.#checkPosition(row);
    const linked = this.#chains.check(row);
    const placed = linked?.kind === 'content_mismatch' ? undefined : misplaced(row, this.#tenantId);
    // A whole row in another place breaks links as well; that it was moved says more.
    const found = placed?.kind === 'reordered' ? placed : (linked ?? placed);
    if (found !== undefined) this.#report(found);
    this.#tree.append(leafOf(row.eventHash));
    this.#position = row.position;
    this.#latestMs = Math.max(this.#latestMs, row.columns?.occurredAtMs ?? this.#latestMs);
    this.#lastChainId = row.chainId;
    this.#witnessed.row(row);
    this.#events++;
  }

  /** What somebody else keeps, or was kept apart from the rows: it was found genuine, so it is right. */
  checkpoint({ position, treeRoot }: Checkpoint): void {
    this.#checkpoints++;
    if (position !== this.#position) {
      this.#witnessed.expectEnd(position);
    } else if (treeRoot === this.#root()) {
      this.#witnessed.fits(position);
    } else {
      this.#mismatch ??= this.#witnessed.rewritten(position);
    }
  }

  /** A stored checkpoint that nobody of this tenant made, or that cannot be read. */
  forgedCheckpoint(position: number): void {
    const message = 'the stored checkpoint is not one that the tenant signed';
    this.#report(problem('signature_invalid', position, message));
  }

  /** Its root is compared always; its signature when `isVerified` says so. */
  anchor(anchor: Anchor, isVerified: boolean): void {
    const { position, treeRoot, jws, latestMs } = anchor;
    this.#heads++;
    this.#said = Math.max(this.#said, position);
    // Where rows are missing there is no root to compare; `row` or `finish` says what is missing.
    if (position === this.#position && treeRoot !== this.#root()) {
      this.#mismatch ??= problem(
        'head_mismatch',
        position,
        'the rows up to here are not those whose tree root was sealed',
      );
    }
    if (position === this.#position && (latestMs ?? this.#latestMs) !== this.#latestMs) {
      // A filter by time trusts it.
      const message = 'the time kept beside the head is not that of the latest event';
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
    const end = Math.max(this.#said, head?.position ?? 0);
    this.#checkEnd(end);
    if (head !== undefined) this.#checkHead(head);
    this.#checkChainEnds(chainEnds);
    const rolledBack = this.#witnessed.rolledBack(this.#position);
    // Where the ledger itself says that rows are missing, that says it better.
    if (rolledBack !== undefined && end <= this.#position) this.#add(rolledBack);
    // A root that differs says that something is wrong; whatever says what, says it better.
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
        ...problem('reordered', row.position, 'the position comes a second time or too late'),
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

  /** A gap within a chain belongs to the rows that are missing, where such are known. */
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
    // Kept whole a little beyond what is reported: what comes later may have the lower position.
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
        const message = 'the chain does not end where the ledger says it does';
        this.#add({ ...problem('head_mismatch', this.#position, message), chain_id: end.chainId });
      }
    }
    for (const chainId of unseen) {
      const message = 'the ledger keeps no end of this chain';
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
      const message = 'the tree root of the head is not that of the rows';
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
