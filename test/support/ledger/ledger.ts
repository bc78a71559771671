import pg from 'pg';
import type { Services } from '../../../control-plane/core/services.ts';
import { createLedger, type RunningLedger } from '../../../control-plane/ledger/sealing/ledger.ts';
import { verifyStored } from '../../../control-plane/ledger/verification/verify-chain.ts';
import type { SigningKeys } from '../../../control-plane/platform/signing-keys/signing-keys.ts';
import { openStore, type Store } from '../../../control-plane/platform/store/open.ts';
import type { Vault } from '../../../control-plane/platform/vault/vault.ts';
import { createVault } from '../../../control-plane/platform/vault/vault.ts';
import { systemClock } from '../../../shared/base/clock.ts';
import { newId } from '../../../shared/base/ids.ts';
import { type Log, silentLog } from '../../../shared/base/log.ts';
import { generateSigningKey, type SigningKey } from '../../../shared/crypto/signing-key.ts';
import type { EvidenceEvent } from '../../../shared/ledger/event.ts';
import type { VerificationReport } from '../../../shared/ledger/verification/problem.ts';

/** Returns signing keys with one key for every purpose. The ledger uses only the key for heads. */
export function signingKeysOf(key: SigningKey): SigningKeys {
  return {
    active: async () => key,
    publicKeys: async () => [key.publicJwk],
    history: async () => [key],
    rotated() {},
  };
}

/** A ledger with a store of its own, as in a control-plane process. */
export interface TestLedger extends RunningLedger {
  readonly store: Store;
  readonly signingKeys: SigningKeys;
  /** Verifies the tenant's whole ledger, and records nothing. */
  verify(tenantId: string): Promise<VerificationReport>;
}

interface LedgerOptions {
  /** Undefined for the embedded database in `dataDir`. */
  readonly databaseUrl: string | undefined;
  readonly dataDir?: string;
  readonly key?: SigningKey;
  readonly signingKeys?: SigningKeys;
  readonly log?: Log;
  /** Key of the outbox. Ledgers that share an outbox must share it. */
  readonly vault?: Pick<Vault, 'mac'>;
}

/** The key of all outboxes to which tests write directly. */
export const testVault = createVault(Buffer.alloc(32, 7));

export async function openLedger(options: LedgerOptions): Promise<TestLedger> {
  const { databaseUrl, dataDir = '', log = silentLog } = options;
  const store = await openStore({ databaseUrl, dataDir, log });
  const signingKeys = options.signingKeys ?? signingKeysOf(options.key ?? generateSigningKey());
  const { vault = testVault } = options;
  const ledger = createLedger({ ...store, signingKeys, vault, clock: systemClock, log });
  return {
    ...ledger,
    store,
    signingKeys,
    verify: (tenantId) => verifyStored({ pool: store.pool, signingKeys }, tenantId),
    async close() {
      await ledger.close();
      await store.close();
    },
  };
}

/**
 * Seals events one after the other, as another process on the same database would: it has no state
 * of this process in memory.
 */
export async function sealElsewhere(
  { config, signingKeys, vault }: Pick<Services, 'config' | 'signingKeys' | 'vault'>,
  tenantId: string,
  events: readonly EvidenceEvent[],
): Promise<void> {
  const other = await openLedger({ databaseUrl: config.databaseUrl, signingKeys, vault });
  for (const event of events) await other.seal(tenantId, event);
  await other.close();
}

/** Returns a decision about agent 7, unless `fields` change this. */
export function anEvent(fields: Partial<EvidenceEvent> = {}): EvidenceEvent {
  return {
    agent_id: '7',
    chain_id: 'agent:7',
    data: { args: { amount: 12, currency: 'EUR' } },
    decision: 'allow',
    id: newId('ev', Date.now()),
    occurred_at: new Date().toISOString(),
    reason_code: 'refund.small_in_scope',
    resource: 'customer:12',
    source: 'control-plane',
    tool: 'mcp.payments.refund',
    type: 'decision',
    user_id: 'user_1',
    ...fields,
  };
}

/**
 * Runs SQL with triggers and constraint checks disabled, so that it can change rows that are
 * otherwise immutable.
 */
export async function tamper(databaseUrl: string, ...statements: readonly string[]): Promise<void> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    await client.query('SET session_replication_role = replica');
    for (const statement of statements) await client.query(statement);
  } finally {
    await client.end();
  }
}
