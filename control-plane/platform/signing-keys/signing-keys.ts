import type { Clock } from '../../../shared/base/clock.ts';
import type { PublicJwk } from '../../../shared/crypto/signing-key.ts';
import {
  exportPrivateKey,
  generateSigningKey,
  importPrivateKey,
  parsePublicJwk,
  type SigningAlgorithm,
  type SigningKey,
} from '../../../shared/crypto/signing-key.ts';
import type { RowGuard } from '../integrity/row-guard.ts';
import { type SignedRows, signedRows } from '../signed-store/signed-rows.ts';
import type { PrismaClient } from '../store/generated/client.ts';
import type { SealedPlace, Vault } from '../vault/vault.ts';

const keyPurposes = ['passport', 'sync', 'checkpoint', 'export', 'report', 'certificate'] as const;
export type KeyPurpose = (typeof keyPurposes)[number];

/**
 * A tenant's signing keys. Each purpose has one active key, created at first use. The vault
 * encrypts the private halves.
 */
export interface SigningKeys {
  active(tenantId: string, purpose: KeyPurpose, alg?: SigningAlgorithm): Promise<SigningKey>;
  /** Returns all keys, oldest first and the active one last. */
  history(tenantId: string, purpose: KeyPurpose): Promise<readonly SigningKey[]>;
  /** Returns the active and the retired public keys, the active one first. */
  publicKeys(tenantId: string, purpose: KeyPurpose): Promise<readonly PublicJwk[]>;
  /**
   * Call it after a rotation has committed, so that the next use reads the active key from the
   * database.
   */
  rotated?(tenantId: string, purpose: KeyPurpose): void;
}

/** How long the active key is cached. A delay is harmless, because a retired key still verifies. */
const believedMs = 1_000;

interface Deps {
  readonly db: PrismaClient;
  readonly vault: Vault;
  readonly clock: Clock;
  readonly guard: RowGuard;
}

/**
 * Returns the algorithm of a purpose: ES256 for reports (contract 5.8), Ed25519 for everything
 * else.
 */
export function algorithmOf(purpose: KeyPurpose): SigningAlgorithm {
  return purpose === 'report' ? 'ES256' : 'EdDSA';
}

/**
 * Manages signing keys in the database, with private halves sealed by the vault. Call `active`
 * before a transaction and not inside one, because embedded mode has a single connection.
 */
export function createSigningKeys({ db, vault, clock, guard }: Deps): SigningKeys {
  const keys = signedRows({ db, guard }, 'signing_key');
  const choices = new Map<string, { readonly key: SigningKey; readonly readAt: number }>();
  // Private keys by kid, cached. A kid's key never changes.
  const opened = new Map<string, SigningKey>();

  const open = (tenantId: string, kid: string, sealed: string): SigningKey => {
    const name = `${tenantId} ${kid}`;
    const key =
      opened.get(name) ?? importPrivateKey(vault.open(sealed, signingKeyPlace(tenantId, kid)));
    opened.set(name, key);
    return key;
  };

  const readActive = async (tenantId: string, purpose: KeyPurpose) => {
    const row = await keys.findFirst({ where: { tenantId, purpose, state: 'active' } });
    if (row === null) return undefined;
    return open(tenantId, row.kid, row.sealed);
  };

  return {
    active: async (tenantId, purpose, alg = algorithmOf(purpose)) => {
      const name = `${tenantId} ${purpose}`;
      const chosen = choices.get(name);
      const readAt = clock.monotonic();
      // The `sync` key is not cached, because sidecars accept only the active one.
      const isBelieved = purpose !== 'sync' && chosen !== undefined;
      if (isBelieved && readAt - chosen.readAt < believedMs) return chosen.key;
      const key =
        (await readActive(tenantId, purpose)) ??
        // The insertion returns undefined if another replica was first: the unique index allows one
        // active key.
        (await insertActiveKey(keys, { vault, clock }, { tenantId, purpose, alg })) ??
        (await readActive(tenantId, purpose));
      if (key === undefined) throw new Error(`could not create an active ${purpose} key`);
      choices.set(name, { key, readAt });
      return key;
    },
    history: async (tenantId, purpose) => {
      const rows = await keys.findMany({
        where: { tenantId, purpose },
        orderBy: [{ createdAt: 'asc' }, { retiredAt: { sort: 'asc', nulls: 'last' } }],
      });
      return rows.map(({ kid, sealed }) => open(tenantId, kid, sealed));
    },
    publicKeys: async (tenantId, purpose) => {
      const rows = await keys.findValid({
        where: { tenantId, purpose },
        orderBy: { createdAt: 'desc' },
      });
      const active = rows.filter(({ state }) => state === 'active');
      const retired = rows.filter(({ state }) => state !== 'active');
      return [...active, ...retired].map(({ publicJwk }) => parsePublicJwk(publicJwk));
    },
    rotated: (tenantId, purpose) => {
      choices.delete(`${tenantId} ${purpose}`);
    },
  };
}

/** Returns the place to which the encryption binds the private half of a signing key. */
export function signingKeyPlace(tenantId: string, kid: string): SealedPlace {
  return { tenantId, purpose: 'signing_key', id: kid, version: 1 };
}

interface NewKey {
  readonly tenantId: string;
  readonly purpose: KeyPurpose;
  readonly alg: SigningAlgorithm;
}

/** Stores a new active key. Returns undefined if the tenant already has one for this purpose. */
export async function insertActiveKey(
  keys: SignedRows<'signing_key'>,
  { vault, clock }: Pick<Deps, 'vault' | 'clock'>,
  { tenantId, purpose, alg }: NewKey,
): Promise<SigningKey | undefined> {
  const key = generateSigningKey(alg);
  const { kid } = key;
  const isNew = await keys.insert({
    tenantId,
    kid,
    purpose,
    alg,
    publicJwk: { ...key.publicJwk },
    state: 'active',
    retiredAt: null,
    sealed: vault.seal(exportPrivateKey(key), signingKeyPlace(tenantId, kid)),
    createdAt: new Date(clock.now()),
  });
  return isNew ? key : undefined;
}
