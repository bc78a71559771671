import { timingSafeEqual } from 'node:crypto';
import { StoreError } from '../store/store-error.ts';
import type { Vault } from './vault.ts';

/** What is believed of a row of `vault_key`. */
export interface KeyState {
  readonly id: string;
  readonly state: string;
  /** When it was put in force; of keys that were, none after another has an earlier time. */
  readonly activatedAt: Date | null;
}

type Mac = Pick<Vault, 'mac'>;

/** The keyed hash of a master key's state. The root outlives master keys, so that it stays what it is. */
export function keyMac(vault: Mac, { id, state, activatedAt }: KeyState): string {
  return vault.mac('vault_key', JSON.stringify([id, state, activatedAt?.getTime() ?? null]));
}

/** Throws for a state that somebody wrote to the database, or a row of before that was put back. */
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
    `That the master key ${id} is ${state} was not written by this system (table vault_key). ` +
      'Restore vault_key and vault_root from one backup, and find out who can write to the database.',
  );
}
