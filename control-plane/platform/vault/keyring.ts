import { deriveKey, type WrappingKey } from '../../../shared/crypto/envelope.ts';

const masterKeyBytes = 32;

/** Derives from a master key the key that wraps data keys. Its id does not reveal the key. */
export function wrappingKeyOf(masterKey: Buffer): WrappingKey {
  if (masterKey.length !== masterKeyBytes) {
    throw new TypeError(`the master key is ${masterKey.length} bytes, not ${masterKeyBytes}`);
  }
  return {
    id: `kek_${deriveKey(masterKey, 'kek-id').toString('hex').slice(0, 16)}`,
    key: deriveKey(masterKey, 'kek'),
  };
}

/** The wrapping keys that this process knows. One of them is active. */
export class Keyring {
  readonly #known = new Map<string, WrappingKey>();
  #active: WrappingKey;

  constructor(masterKey: Buffer) {
    this.#active = wrappingKeyOf(masterKey);
    this.#known.set(this.#active.id, this.#active);
  }

  get active(): WrappingKey {
    return this.#active;
  }

  get ids(): readonly string[] {
    return [...this.#known.keys()];
  }

  /** Adds a master key, so that secrets under it can be decrypted. Returns the key's id. */
  add(masterKey: Buffer): string {
    const wrapping = wrappingKeyOf(masterKey);
    this.#known.set(wrapping.id, wrapping);
    return wrapping.id;
  }

  find(id: string): WrappingKey | undefined {
    return this.#known.get(id);
  }

  /** Makes this key the active one. For an unknown key, returns false and changes nothing. */
  activate(id: string): boolean {
    const wrapping = this.#known.get(id);
    if (wrapping === undefined) return false;
    this.#active = wrapping;
    return true;
  }
}
