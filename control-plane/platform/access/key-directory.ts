import { hash as digest } from 'node:crypto';
import { isApiKey } from '../../../shared/crypto/api-key.ts';
import type { Platform } from '../platform.ts';
import { signedRows } from '../signed-store/signed-rows.ts';
import type { Caller } from './caller.ts';
import { parseDevKeys } from './dev-keys.ts';
import { mintersOf } from './minters.ts';
import { permissionsOf } from './roles.ts';

/** How long a key is cached. A revocation may take this long to apply on other replicas. */
const believedMs = 1_000;
const cacheMax = 10_000;
const lastUsedStepMs = 60_000;

/** Identity of a key. The address is missing, because it comes from the request. */
export type KeyHolder = Omit<Caller, 'address'>;

interface Known {
  readonly hash: string;
  readonly holder: KeyHolder;
  readonly expiresAtMs: number;
  readonly readAt: number;
}

/** Looks up the holder of an API key. */
interface KeyDirectory {
  /**
   * Returns the holder of a valid key, or undefined for an unknown, revoked, expired or malformed
   * key. Calls `beforeUnknown` before it looks up a key that is not in the cache.
   */
  find(key: string, beforeUnknown?: () => Promise<void>): Promise<KeyHolder | undefined>;
  /**
   * Returns when a key expired, in ms since the epoch. Returns undefined unless this key was just
   * looked up and is expired.
   */
  expiredAtMs(key: string): number | undefined;
  /**
   * Removes a key, identified by its hash, from the cache, so that its revocation applies in this
   * process at once.
   */
  forget(hash: string): void;
}

const directories = new WeakMap<Platform, KeyDirectory>();

/**
 * Returns the services' single key directory. All code shares it, so that a revocation reaches its
 * cache.
 */
export function keyDirectory(services: Platform): KeyDirectory {
  const existing = directories.get(services);
  if (existing !== undefined) return existing;
  const made = createKeyDirectory(services);
  directories.set(services, made);
  return made;
}

/** Returns the hash under which the database stores a key. */
export function hashApiKey(vault: Platform['vault'], key: string): string {
  return vault.mac('api_key', key);
}

/** The cache uses a plain hash, which costs a tenth of the keyed hash. */
const indexOf = (key: string): string => digest('sha256', key, 'base64');

function createKeyDirectory(services: Platform): KeyDirectory {
  const { config, clock, vault } = services;
  const devHolders = new Map(
    parseDevKeys(config).map(
      ({ key, ...holder }) => [indexOf(key), devHolder(hashApiKey(vault, key), holder)] as const,
    ),
  );
  const cache = new Map<string, Known>();
  // Counts revocations. A row that was read before a revocation must not enter the cache after it.
  let revocations = 0;

  const lookUp = async (key: string, index: string): Promise<Known | undefined> => {
    if (!isApiKey(key)) return undefined;
    const seen = revocations;
    const known = await readKey(services, hashApiKey(vault, key));
    if (seen === revocations) remember(cache, index, known);
    return known;
  };

  return {
    find: async (key, beforeUnknown) => {
      const index = indexOf(key);
      const dev = devHolders.get(index);
      if (dev !== undefined) return dev;
      const cached = cache.get(index);
      const isFresh = cached !== undefined && clock.monotonic() - cached.readAt < believedMs;
      if (cached === undefined) await beforeUnknown?.();
      const known = isFresh ? cached : await lookUp(key, index);
      return known !== undefined && known.expiresAtMs > clock.now() ? known.holder : undefined;
    },
    expiredAtMs: (key) => {
      const known = cache.get(indexOf(key));
      return known !== undefined && known.expiresAtMs <= clock.now()
        ? known.expiresAtMs
        : undefined;
    },
    forget: (hash) => {
      revocations += 1;
      for (const [index, known] of cache) if (known.hash === hash) cache.delete(index);
    },
  };
}

function devHolder(
  hash: string,
  { tenantId, role, scope, principal }: Pick<Caller, 'tenantId' | 'role' | 'scope' | 'principal'>,
): KeyHolder {
  const permissions = permissionsOf(role, false);
  const keyId = `dev_${hash.slice(0, 16)}`;
  return { kind: 'key', tenantId, principal, role, scope, permissions, keyId };
}

function remember(cache: Map<string, Known>, index: string, known: Known | undefined): void {
  cache.delete(index);
  if (known === undefined) return;
  if (cache.size >= cacheMax) cache.clear();
  cache.set(index, known);
}

async function readKey(services: Platform, hash: string): Promise<Known | undefined> {
  const readAt = services.clock.monotonic();
  const row = await signedRows(services, 'api_key').findUnique({ where: { hash } });
  if (row === null || row.revokedAt !== null) return undefined;
  recordUse(services, row);
  const agentId = row.agentId === null ? undefined : String(row.agentId);
  return {
    hash,
    readAt,
    expiresAtMs: row.expiresAt?.getTime() ?? Number.POSITIVE_INFINITY,
    holder: {
      kind: 'key',
      tenantId: row.tenantId,
      principal: row.principal,
      mintedBy: await mintersOf(services, row),
      role: row.role,
      scope: row.scope === 'gateway' ? 'gateway' : 'tenant',
      permissions: permissionsOf(row.role, agentId !== undefined),
      keyId: row.id,
      agentId,
    },
  };
}

/**
 * Records the last use of a key. The time is coarse and the write is not awaited, because one write
 * per request would cost too much.
 */
function recordUse(
  services: Platform,
  { id, lastUsedAt }: { readonly id: string; readonly lastUsedAt: Date | null },
): void {
  const { clock, log } = services;
  const now = clock.now();
  if (lastUsedAt !== null && now - lastUsedAt.getTime() < lastUsedStepMs) return;
  signedRows(services, 'api_key')
    .updateUnsigned({ id }, { lastUsedAt: new Date(now) })
    .catch((err: unknown) =>
      log.debug({ err, keyId: id }, 'could not store the last use of a key'),
    );
}
