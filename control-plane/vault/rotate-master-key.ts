import { setTimeout as delay } from 'node:timers/promises';
import { SettingsError } from '../../shared/base/settings.ts';
import type { Services } from '../core/services.ts';
import { newEvent } from '../ledger/sealing/new-event.ts';
import { claimedRows } from '../platform/signed-store/claimed-rows.ts';
import { lockFor, type Transaction, transaction } from '../platform/store/transaction.ts';
import { liveHolders } from '../platform/vault/hold-keys.ts';
import { assertKeyStates, type KeyState, keyMac } from '../platform/vault/key-states.ts';
import type { Kms } from '../platform/vault/kms/kms.ts';
import { type OpenKeys, unwrapKey } from '../platform/vault/open-keys.ts';
import { countWrapped, rewrapColumn } from '../platform/vault/rewrap-column.ts';
import { sealedColumns } from '../platform/vault/sealed-columns.ts';
import { createVault, type Vault, type VaultKeys } from '../platform/vault/vault.ts';

export interface Rotation {
  /** Id of the active key. */
  readonly active: string;
  /** Ids of the keys that no longer wrap anything. */
  readonly retired: readonly string[];
  readonly rewrapped: number;
  /** Rows that no key can decrypt. Their secrets were already lost before the rotation. */
  readonly unreadable: readonly string[];
}

type Deps = Pick<Services, 'db' | 'pool' | 'clock' | 'ledger'>;

interface Options {
  /** Maximum time to wait for control planes. Default: one minute. */
  readonly patienceMs?: number;
  /** Called with a description of the current step, whenever the step changes. */
  readonly onProgress?: (step: string) => void;
}

const pollMs = 250;
const sweepsMax = 50;

/**
 * Replaces the master key without downtime: announces the new key, activates it when every control
 * plane has it, and then wraps all data keys again. An interrupted rotation resumes when it is run
 * again. Throws a `SettingsError` that states what the operator must do first.
 */
export async function rotateMasterKey(
  keys: OpenKeys,
  deps: Deps,
  { patienceMs = 60_000, onProgress = () => {} }: Options = {},
): Promise<Rotation> {
  const all = (what: string, isSo: (holder: Holder) => boolean) =>
    waitForHolders(deps.pool, { what, isSo, patienceMs, onProgress });
  const target = await nextKey(keys, deps);
  if (target !== keys.keyring.active.id) {
    await all(`know ${target}`, (holder) => holder.keys.includes(target));
    await activate(keys, deps, target);
  }
  keys.keyring.activate(target);
  await all(`wrap by ${target}`, ({ active }) => active === target);
  onProgress(`wrapping all data keys under ${target}`);
  const { rewrapped, unreadable } = await rewrapAll(keys, deps);
  const retired = await retireOthers(keys, deps, { target, rewrapped, unreadable });
  return { active: target, retired, rewrapped, unreadable };
}

/** Returns the key to activate. If an earlier rotation was interrupted, this is its key. */
async function nextKey(keys: OpenKeys, deps: Deps): Promise<string> {
  return transaction(deps.db, async (tx) => {
    await lockFor(tx, '', 'vault_key');
    const rows = await tx.vaultKey.findMany();
    assertKeyStates(createVault(keys), rows);
    const active = rows.find(({ state }) => state === 'active');
    if (active !== undefined && rows.some(({ state }) => state === 'retiring')) {
      keys.keyring.activate(active.id);
      return active.id;
    }
    const { givenId } = keys;
    const given = rows.find(({ id }) => id === givenId)?.state ?? 'new';
    if (givenId !== undefined && ['new', 'announced'].includes(given)) {
      return announceOperatorKey(tx, keys, givenId);
    }
    if (keys.kms !== undefined) return announceKmsKey(tx, { ...keys, kms: keys.kms });
    if (givenId !== undefined && given === 'active') return givenId;
    throw new SettingsError(
      `SALLYPORT_MASTER_KEY is ${givenId}, which was already replaced; set it to a new key.`,
    );
  });
}

async function announceOperatorKey(tx: Transaction, keys: OpenKeys, id: string): Promise<string> {
  // Deletes a key that was announced but never used: the new key replaces it.
  await tx.vaultKey.deleteMany({ where: { state: 'announced', id: { not: id } } });
  const row = { ...announced(keys, id), provider: 'environment' };
  await tx.vaultKey.createMany({ data: [row], skipDuplicates: true });
  return id;
}

/** Announces a key that the KMS created: the key of an interrupted rotation, or a new one. */
async function announceKmsKey(
  tx: Transaction,
  keys: VaultKeys & { readonly kms: Kms },
): Promise<string> {
  const { keyring, kms } = keys;
  const where = { state: 'announced', wrapped: { not: null } };
  const before = await tx.vaultKey.findFirst({ where });
  if (before?.wrapped != null) {
    const { id, wrapped } = before;
    keyring.add(await unwrapKey(kms, { id, wrapped }));
    return id;
  }
  const { key, wrapped } = await kms.makeKey();
  const id = keyring.add(key);
  const provider = kms.name;
  await tx.vaultKey.create({ data: { ...announced(keys, id), provider, wrapped } });
  return id;
}

function announced(keys: VaultKeys, id: string) {
  const state = { id, state: 'announced', activatedAt: null };
  return { ...state, mac: keyMac(createVault(keys), state) };
}

async function activate(keys: OpenKeys, deps: Deps, target: string): Promise<void> {
  const from = keys.keyring.active.id;
  const vault = createVault(keys);
  await transaction(deps.db, async (tx) => {
    await lockFor(tx, '', 'vault_key');
    const rows = await tx.vaultKey.findMany();
    assertKeyStates(vault, rows);
    const times = rows.map(({ activatedAt }) => activatedAt?.getTime() ?? 0);
    for (const row of rows.filter(({ state }) => state === 'active')) {
      await change(tx, vault, { ...row, state: 'retiring' });
    }
    // The activation time is always later than the activation times of all earlier keys, even if
    // the clock is behind.
    const activatedAt = new Date(Math.max(deps.clock.now(), ...times.map((time) => time + 1)));
    await change(tx, vault, { id: target, state: 'active', activatedAt });
    await recordInLedgers(tx, deps, 'master_key.rotation_began', { from, to: target });
  });
}

async function retireOthers(
  keys: VaultKeys,
  deps: Deps,
  {
    target,
    rewrapped,
    unreadable,
  }: { target: string } & Pick<Rotation, 'rewrapped' | 'unreadable'>,
): Promise<readonly string[]> {
  return transaction(deps.db, async (tx) => {
    await lockFor(tx, '', 'vault_key');
    const rows = await tx.vaultKey.findMany();
    assertKeyStates(createVault(keys), rows);
    const retiring = rows.filter(({ state }) => state === 'retiring');
    if (retiring.length === 0) return [];
    const ids = retiring.map(({ id }) => id);
    const retiredAt = new Date(deps.clock.now());
    for (const row of retiring) {
      await change(tx, createVault(keys), { ...row, state: 'retired', retiredAt });
    }
    const data = { from: ids.join(' '), to: target, rewrapped, unreadable: unreadable.length };
    await recordInLedgers(tx, deps, 'master_key.rotated', data);
    return ids;
  });
}

async function change(
  tx: Transaction,
  vault: Pick<Vault, 'mac'>,
  { id, state, activatedAt, retiredAt = null }: KeyState & { readonly retiredAt?: Date | null },
): Promise<void> {
  const mac = keyMac(vault, { id, state, activatedAt });
  await tx.vaultKey.update({ where: { id }, data: { state, activatedAt, retiredAt, mac } });
}

/** Records the change of the master keys in each tenant's ledger. */
async function recordInLedgers(
  tx: Transaction,
  { ledger, clock }: Deps,
  type: string,
  data: Readonly<Record<string, string | number>>,
): Promise<void> {
  const tenants = await claimedRows(tx, 'tenant').findClaims(['id'], {});
  for (const { id } of tenants) {
    const fields = { type, chainId: 'keys:master', data: { by: 'operator', ...data } };
    await ledger.record(tx, id, newEvent(fields, clock));
  }
}

type Holder = Awaited<ReturnType<typeof liveHolders>>[number];

/**
 * Waits for the running control planes. After half a minute, a killed control plane no longer
 * counts as running.
 */
async function waitForHolders(
  pool: Deps['pool'],
  {
    what,
    isSo,
    patienceMs,
    onProgress,
  }: { readonly what: string; readonly isSo: (holder: Holder) => boolean } & Required<Options>,
): Promise<void> {
  const giveUpAt = performance.now() + patienceMs;
  let reported = '';
  for (;;) {
    const others = (await liveHolders(pool)).filter((holder) => !isSo(holder));
    if (others.length === 0) return;
    const step = `waiting until these control planes ${what}: ${others.map(({ id }) => id).join(', ')}`;
    if (step !== reported) onProgress(step);
    reported = step;
    if (performance.now() > giveUpAt) {
      throw new SettingsError(
        `Of the control planes that run, ${others.length} do not ${what} yet (${others.map(({ id }) => id).join(', ')}). ` +
          'Give all of them the new key as SALLYPORT_MASTER_KEY and the old one as SALLYPORT_MASTER_KEY_PREVIOUS, or the same KMS, restart them, and run this again. Nothing is broken meanwhile.',
      );
    }
    await delay(pollMs);
  }
}

/** Repeats until nothing is left to wrap, because each run skips locked rows. */
async function rewrapAll(
  { keyring }: OpenKeys,
  { pool }: Deps,
): Promise<Pick<Rotation, 'rewrapped' | 'unreadable'>> {
  let rewrapped = 0;
  for (let sweep = 1; sweep <= sweepsMax; sweep++) {
    const unreadable: string[] = [];
    for (const column of sealedColumns) {
      const done = await rewrapColumn(pool, keyring, column);
      rewrapped += done.rewrapped;
      unreadable.push(...done.unreadable);
    }
    if ((await countOthers(pool, keyring.active.id)) === unreadable.length) {
      return { rewrapped, unreadable };
    }
    await delay(pollMs);
  }
  throw new SettingsError(
    'Secrets are still being wrapped by the old key; run this command again.',
  );
}

async function countOthers(pool: Deps['pool'], activeId: string): Promise<number> {
  let count = 0;
  for (const column of sealedColumns) {
    for (const [id, wrapped] of await countWrapped(pool, column)) {
      if (id !== activeId) count += wrapped;
    }
  }
  return count;
}
