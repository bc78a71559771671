import type { Pool, PoolClient } from 'pg';
import { type VerificationKeys, verificationKeys } from '../../../shared/crypto/signing-key.ts';
import { GatewayError } from '../../../shared/errors/gateway-error.ts';
import type { SealedEvent } from '../../../shared/ledger/event.ts';
import { signHead, verifyHead } from '../../../shared/ledger/head.ts';
import type { Frontier } from '../../../shared/ledger/merkle.ts';
import type { SigningKeys } from '../../platform/signing-keys/signing-keys.ts';
import { classifyEntries, type Entry } from './classify-entries.ts';
import { type ConfirmedEnd, type End, noEnd } from './confirmed-end.ts';
import { deleteFromOutbox } from './outbox.ts';
import {
  type ChainHead,
  type LedgerState,
  type PreparedBatch,
  prepareBatch,
} from './prepare-batch.ts';
import { type Queryable, readState } from './read-state.ts';
import { writeBatch } from './write-batch.ts';

export interface TenantLedgerDeps {
  readonly pool: Pool;
  readonly signingKeys: SigningKeys;
  /**
   * Returns the confirmed end of a tenant's ledger, which is kept for the lifetime of the process.
   */
  confirmedEnd(tenantId: string): ConfirmedEnd;
  /** Returns the position up to which an operator accepted a rollback. */
  acceptedPosition(tenantId: string): Promise<number>;
  /** Called once when the ledger no longer contains its confirmed end. */
  onRolledBack(tenantId: string, lost: End, ledgerPosition: number): void;
}

interface Attempt {
  /** If true, first checks whether the events are already sealed. */
  readonly isSuspicious: boolean;
  /** If true, first locks the head, because this writer lost several races. */
  readonly isLocking: boolean;
  readonly isPrepared: boolean;
}

/** Result of sealing entries together. */
export interface Sealed {
  /** Entries whose events are durable after this call. */
  readonly results: readonly { readonly entry: Entry; readonly sealed: SealedEvent }[];
  /** Entries that did not fit into the batch. */
  readonly left: readonly Entry[];
  /** Entries whose id already belongs to a different event. */
  readonly conflicts: readonly Entry[];
}

const chainsMax = 10_000;

/**
 * Appends to one tenant's ledger, with the ledger's head cached. The statement that writes a batch
 * verifies the cached position.
 */
export class TenantLedger {
  readonly #tenantId: string;
  readonly #deps: TenantLedgerDeps;
  readonly #chains = new Map<string, ChainHead>();
  readonly #confirmed: ConfirmedEnd;
  #state: LedgerState | undefined;
  #end: End | undefined;
  #keys: VerificationKeys = new Map();

  constructor(tenantId: string, deps: TenantLedgerDeps) {
    this.#tenantId = tenantId;
    this.#deps = deps;
    this.#confirmed = deps.confirmedEnd(tenantId);
  }

  get position(): number {
    return this.#state?.position ?? 0;
  }

  /**
   * Drops the cached state. Call it after a failure, because the batch may or may not be in the
   * ledger.
   */
  forget(): void {
    this.#state = undefined;
    this.#end = undefined;
    this.#chains.clear();
  }

  /** Seals entries. Returns undefined, without an effect, if another writer appended first. */
  async seal(entries: readonly Entry[], attempt: Attempt): Promise<Sealed | undefined> {
    // Runs before a connection is taken, because reading the accepted position may need the only
    // connection.
    if (this.#confirmed.isLost) {
      this.#confirmed.acceptLoss(await this.#deps.acceptedPosition(this.#tenantId));
    }
    const key = await this.#deps.signingKeys.active(this.#tenantId, 'checkpoint');
    const sign = (batch: PreparedBatch, treeRoot: string) => ({
      kid: key.kid,
      jws: signHead(
        { tenant: this.#tenantId, position: batch.after + batch.rows.length, tree_root: treeRoot },
        key,
      ),
    });
    if (attempt.isLocking) await this.#readKeys();
    const seal = (connection: Queryable) => this.#sealOn(connection, entries, { ...attempt, sign });
    const sealed = attempt.isLocking ? await this.#locked(seal) : await seal(this.#deps.pool);
    // The end is confirmed after the commit, because a transaction under the lock can roll back.
    if (this.#end !== undefined) this.#confirmed.confirm(this.#end);
    return sealed;
  }

  async #locked<T>(work: (client: PoolClient) => Promise<T>): Promise<T> {
    const client = await this.#deps.pool.connect();
    let failure: Error | undefined;
    try {
      await client.query('BEGIN');
      await client.query('SELECT 1 FROM evidence_head WHERE tenant_id = $1 FOR UPDATE', [
        this.#tenantId,
      ]);
      // Drops the cached state, so that it is read again under the lock, which excludes other
      // writers.
      this.forget();
      const result = await work(client);
      await client.query('COMMIT');
      return result;
    } catch (error) {
      failure = error instanceof Error ? error : new Error(String(error));
      throw error;
    } finally {
      // Closes a failed connection, which rolls the transaction back, instead of returning it to
      // the pool.
      client.release(failure);
    }
  }

  async #sealOn(
    connection: Queryable,
    entries: readonly Entry[],
    attempt: SigningAttempt,
  ): Promise<Sealed | undefined> {
    const { state, existing } = await this.#load(connection, entries, attempt);
    const { fresh, repeats, alreadySealed, conflicts } = classifyEntries(entries, existing);
    const batch = prepareBatch(this.#tenantId, state, fresh);
    const results = [...alreadySealed];
    for (const [index, { sealed }] of batch.rows.entries()) {
      for (const entry of withRepeats(fresh.slice(index, index + 1), repeats)) {
        results.push({ entry, sealed });
      }
    }
    const drained = results.flatMap(({ entry }) => entry.outboxId ?? []);
    const isWritten = await this.#write(connection, batch, { drained, attempt });
    if (!isWritten) return undefined;
    return { results, left: withRepeats(fresh.slice(batch.rows.length), repeats), conflicts };
  }

  async #write(
    connection: Queryable,
    batch: PreparedBatch,
    { drained, attempt }: { readonly drained: readonly string[]; readonly attempt: SigningAttempt },
  ): Promise<boolean> {
    if (batch.rows.length === 0) {
      if (drained.length > 0) await deleteFromOutbox(connection, this.#tenantId, drained);
      return true;
    }
    const treeRoot = rootText(batch.tree);
    const rootBefore = this.#end?.treeRoot ?? noEnd.treeRoot;
    const { isPrepared } = attempt;
    const signed = attempt.sign(batch, treeRoot);
    if (
      !(await writeBatch(connection, {
        batch,
        treeRoot,
        rootBefore,
        ...signed,
        outboxIds: drained,
        isPrepared,
      }))
    ) {
      this.forget();
      return false;
    }
    for (const [chainId, head] of batch.moved) this.#chains.set(chainId, head);
    this.#state = {
      position: batch.after + batch.rows.length,
      tree: batch.tree,
      latestMs: batch.latestMs,
      chains: this.#chains,
    };
    this.#end = { position: this.#state.position, treeRoot };
    return true;
  }

  async #load(
    connection: Queryable,
    entries: readonly Entry[],
    { isSuspicious, isLocking }: Attempt,
  ) {
    if (this.#chains.size > chainsMax) this.forget();
    const chainIds = [...new Set(entries.map(({ event }) => event.chain_id))];
    const eventIds = isSuspicious
      ? [...new Set(entries.map(({ columns }) => columns.eventId))]
      : [];
    const unknown = chainIds.filter((chainId) => !this.#chains.has(chainId));
    if (this.#state !== undefined && unknown.length === 0 && !isSuspicious) {
      return { state: this.#state, existing: nothing };
    }
    const confirmedPosition = this.#confirmed.position;
    const wanted = { chainIds: unknown, eventIds, confirmedPosition };
    let read = await readState(connection, this.#tenantId, wanted);
    if (this.#state !== undefined && this.#state.position !== read.position) {
      // Another writer appended, so the cached chain heads are stale.
      this.forget();
      read = await readState(connection, this.#tenantId, { ...wanted, chainIds });
    }
    if (this.#state === undefined && !this.#isSigned(read)) {
      // Another replica may have signed the head with a new key. Under the lock, the keys were
      // already read.
      if (!isLocking) await this.#readKeys();
      if (!this.#isSigned(read)) throw new GatewayError('evidence.fork');
    }
    if (this.#state === undefined) this.#assertHeld(read);
    for (const [chainId, head] of read.chains) this.#chains.set(chainId, head);
    const { position, tree, latestMs } = read;
    this.#state ??= { position, tree, latestMs, chains: this.#chains };
    return { state: this.#state, existing: read.existing };
  }

  /**
   * Returns whether the newest batch signed the stored tree. This is required, because the next
   * batch signs a tree that extends the stored one.
   */
  #isSigned(read: Awaited<ReturnType<typeof readState>>): boolean {
    const { position, tree, treeRoot, signature = '' } = read;
    const tree_root = rootText(tree);
    // The statement that writes the batch compares the root in the head row with this root.
    if (treeRoot !== tree_root) return false;
    if (position === 0) return true;
    return verifyHead({ tenant: this.#tenantId, position, tree_root }, signature, this.#keys);
  }

  /**
   * Throws if the ledger was rolled back, even if its signature is valid, because appending would
   * hide the missing part.
   */
  #assertHeld(read: Awaited<ReturnType<typeof readState>>): void {
    const { position, confirmedRoot } = read;
    const end = { position, treeRoot: rootText(read.tree) };
    this.#end = end;
    if (this.#confirmed.isHeldBy({ ...end, confirmedRoot })) {
      this.#confirmed.confirm(end);
      return;
    }
    const lost = this.#confirmed.markLost();
    if (lost !== undefined) this.#deps.onRolledBack(this.#tenantId, lost, position);
    throw new GatewayError('evidence.rolled_back');
  }

  async #readKeys(): Promise<void> {
    const keys = await this.#deps.signingKeys.publicKeys(this.#tenantId, 'checkpoint');
    this.#keys = verificationKeys(keys);
  }
}

interface SigningAttempt extends Attempt {
  sign(batch: PreparedBatch, treeRoot: string): { readonly kid: string; readonly jws: string };
}

function rootText(tree: Frontier): string {
  return `sha256:${tree.root().toString('hex')}`;
}

const nothing: ReadonlyMap<string, SealedEvent> = new Map();

function withRepeats(
  entries: readonly Entry[],
  repeats: ReadonlyMap<Entry, readonly Entry[]>,
): readonly Entry[] {
  return entries.flatMap((entry) => [entry, ...(repeats.get(entry) ?? [])]);
}
