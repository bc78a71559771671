import { timingSafeEqual } from 'node:crypto';
import { StoreError } from '../store/store-error.ts';
import type { Vault } from './vault.ts';

/** Signed state of a master key, from its `vault_key` row. */
export interface KeyState {
  readonly id: string;
  readonly state: string;
  /** Time when the key became active. The active key has the latest time of all keys. */
  readonly activatedAt: Date | null;
}

type Mac = Pick<Vault, 'mac'>;

/**
 * Computes the keyed hash of a master key's state. The hash key is derived from the root secret,
 * which outlives master keys.
 */
export function keyMac(vault: Mac, { id, state, activatedAt }: KeyState): string {
  return vault.mac('vault_key', JSON.stringify([id, state, activatedAt?.getTime() ?? null]));
}

/** Throws if a state was forged, or if an older row was restored. */
export function assertKeyStates(
  vault: Mac,
  rows: readonly (KeyState & { readonly mac: string | null })[],
): void {
  for (const row of rows) {
    const expected = Buffer.from(keyMac(vault, row));
    const found = Buffer.from(row.mac ?? '');
    if (found.length !== expected.length || !timingSafeEqual(found, expected))
      throw forgedState(row);
  }
  const timeOf = ({ activatedAt }: KeyState) => activatedAt?.getTime() ?? 0;
  const active = rows.find(({ state }) => state === 'active');
  if (active === undefined) return;
  if (rows.some((row) => timeOf(row) > timeOf(active))) throw forgedState(active);
}

function forgedState({ id, state }: KeyState): StoreError {
  return new StoreError(
    `The state "${state}" of the master key ${id} failed its integrity check (table vault_key). ` +
      'Restore vault_key and vault_root from one backup, and find out who can write to the database.',
  );
}
