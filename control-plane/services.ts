import type { Pool } from 'pg';
import type { Clock } from '../shared/base/clock.ts';
import type { Log } from '../shared/base/log.ts';
import type { Bus } from '../shared/bus/bus.ts';
import type { EvidenceFilters } from '../shared/contract/evidence/evidence.ts';
import type { PublicJwk, SigningAlgorithm, SigningKey } from '../shared/crypto/signing-key.ts';
import type { GatewayError } from '../shared/errors/gateway-error.ts';
import type { EvidenceEvent, SealedEvent } from '../shared/ledger/event.ts';
import type { SectionName } from '../shared/sync/sections.ts';
import type { Config } from './config.ts';
import type { Armed } from './integrity/armed.ts';
import type { KnownLedgers } from './integrity/known-ledgers.ts';
import type { SignedRow, SignedTable } from './integrity/signed-rows.ts';
import type { Prisma, PrismaClient } from './store/generated/client.ts';
import type { Upstream } from './upstream/open-upstream.ts';
import type { OwnUsage } from './usage/own-usage.ts';

/** A database transaction that a use case is in. */
export type Transaction = Prisma.TransactionClient;

/** What a ciphertext belongs to; a ciphertext moved to another place does not open. */
export interface SealedPlace {
  readonly tenantId: string;
  /** For example `credential`, `approval_args`, `signing_key`, `evidence_salt`. */
  readonly purpose: string;
  readonly id: string;
  readonly version: number;
}

/** Secrets at rest: envelope encryption under the master key (design 10). */
export interface Vault {
  /** Encrypts; the result is JSON text for a database column. */
  seal(plaintext: string | Uint8Array, place: SealedPlace): string;
  /** Decrypts, or throws `credential.unreadable`. */
  open(sealed: string, place: SealedPlace): Buffer;
  /** A keyed hash, hex, under a key derived from the master key for this purpose alone. */
  mac(purpose: string, data: string): string;
}

/** Tells the rows that the control plane wrote from those that somebody else did. */
export interface RowGuard {
  /** The keyed hash for a row, with the values that it will have in the database. */
  sign<Table extends SignedTable>(table: Table, row: Omit<SignedRow<Table>, 'mac'>): string;
  /** False for a row that this system did not write: never to be used. It is sealed and counted. */
  holds<Table extends SignedTable>(table: Table, row: SignedRow<Table>): boolean;
  /** Throws `integrity.forged_row` for such a row. */
  assert<Table extends SignedTable>(table: Table, row: SignedRow<Table>): void;
  /** What this process has read of the ledgers, to compare rows with. */
  readonly known: KnownLedgers;
  /**
   * The rows, by tenant, in which something is wrong that no decision meets, and the kill switches
   * that are armed: all of them, as of now.
   */
  suspect(rows: ReadonlyMap<string, readonly string[]>, armed: ReadonlyMap<string, Armed>): void;
  /** The kill switches that were armed when the ledger ended at this position. */
  armedIn(tenantId: string): Armed;
  /** Those of a tenant, as `<table> <key>`. */
  suspectsOf(tenantId: string): readonly string[];
  /** Throws `integrity.forged_row` for one of them. */
  assertTrusted(tenantId: string): void;
  /** For what proves itself otherwise, a binding: seals and counts it, and gives the error to throw. */
  forged(forgery: Forgery): GatewayError;
}

/** A row that is not ours. */
export interface Forgery {
  readonly tenantId: string;
  readonly table: string;
  readonly key: string;
  /** The row as it was found. */
  readonly found: string;
}

const keyPurposes = ['passport', 'sync', 'checkpoint', 'export', 'report', 'certificate'] as const;
export type KeyPurpose = (typeof keyPurposes)[number];

/** A tenant's signing keys: one active per purpose, made at first use, private halves in the vault. */
export interface SigningKeys {
  active(tenantId: string, purpose: KeyPurpose, alg?: SigningAlgorithm): Promise<SigningKey>;
  /** Every key there was, oldest first, the active one last. */
  history(tenantId: string, purpose: KeyPurpose): Promise<readonly SigningKey[]>;
  /** Active and retired public keys, the active one first. */
  publicKeys(tenantId: string, purpose: KeyPurpose): Promise<readonly PublicJwk[]>;
  /** After a rotation has committed: the next use asks the database which key is active. */
  rotated?(tenantId: string, purpose: KeyPurpose): void;
}

/** The ledger's writing side. */
export interface Ledger {
  /** Seals one event in the next group commit; resolves when it is durable. */
  seal(tenantId: string, event: EvidenceEvent): Promise<SealedEvent>;
  /** Seals events in this order, dropping those already sealed with the same bytes. */
  sealAll(tenantId: string, events: readonly EvidenceEvent[]): Promise<readonly SealedEvent[]>;
  /**
   * The same for events that the caller keeps until they are sealed: what fails now is not sealed
   * later as a dead letter, and each is told apart from the others.
   */
  sealKept(
    tenantId: string,
    events: readonly EvidenceEvent[],
  ): Promise<readonly PromiseSettledResult<SealedEvent>[]>;
  /** Commits an event together with the change it proves: call inside the change's transaction. */
  record(tx: Transaction, tenantId: string, event: EvidenceEvent): Promise<void>;
  /** After that transaction: resolves once the event is sealed. Never call inside one. */
  sealed(tenantId: string, eventId: string): Promise<SealedEvent>;
  /** Seals now what waits for this tenant, as far as it can be. Never rejects. */
  retry(tenantId: string): Promise<void>;
  /** Events whose sealing failed, in the memory of this process: the database does not take them yet. */
  unkept(tenantId: string): readonly { readonly event: EvidenceEvent; readonly reason: string }[];
  /** The same, how many of all tenants. */
  readonly unkeptCount: number;
}

export interface FollowRequest {
  readonly filters: EvidenceFilters;
  /** Resume strictly after this; undefined: from where the ledger ends now. */
  readonly cursor: string | undefined;
  /** Aborted when the follower is gone. */
  readonly signal: AbortSignal;
  /** Asked now and then: a stream must not outlive the key that it was opened with. */
  isStillPermitted(): Promise<boolean>;
}

/** Carries sealed events to whoever follows a tenant's ledger. */
export interface EvidenceFeed {
  /** After each commit: wakes the followers, those at other processes, too. Never throws. */
  sealed(tenantId: string): void;
  /** Opens a stream of server-sent messages, or throws `evidence.cursor_invalid`, `evidence.stream_full`. */
  open(tenantId: string, request: FollowRequest): Promise<AsyncIterable<string | Uint8Array>>;
  /** How many there are at this process. */
  readonly followers: number;
  /** Ends every stream: clients resume elsewhere. */
  close(): Promise<void>;
}

/** Carries changed state to the sidecars. */
export interface Publisher {
  /** Moves the versions of the named sections: call inside the transaction that changes the data. */
  changed(tx: Transaction, tenantId: string, ...sections: readonly SectionName[]): Promise<void>;
  /** After that transaction: publish now rather than at the next round. Never rejects. */
  nudge(): void;
}

/** What use cases are given. Built in `main.ts`, closed there in reverse order. */
export interface Services {
  readonly config: Config;
  readonly clock: Clock;
  readonly log: Log;
  readonly db: PrismaClient;
  /** The pool under `db`, for what is hot: sealing. */
  readonly pool: Pool;
  readonly bus: Bus;
  readonly vault: Vault;
  /** Which rows of the database are ours. */
  readonly guard: RowGuard;
  readonly signingKeys: SigningKeys;
  readonly ledger: Ledger;
  /** The ledger's reading side for those who follow it. */
  readonly feed: EvidenceFeed;
  readonly publisher: Publisher;
  readonly upstream: Upstream;
  /** What this process permitted, for budgets. */
  readonly usage: OwnUsage;
}
