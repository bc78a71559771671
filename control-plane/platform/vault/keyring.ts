import { deriveKey, type WrappingKey } from '../../../shared/crypto/envelope.ts';

const masterKeyBytes = 32;

/** Derives the key that wraps data keys, with an id that does not reveal the key. */
export function wrappingKeyOf(masterKey: Buffer): WrappingKey {
  if (masterKey.length !== masterKeyBytes) {
    throw new TypeError(`the master key is ${masterKey.length} bytes, not ${masterKeyBytes}`);
  }
  return {
    id: `kek_${deriveKey(masterKey, 'kek-id').toString('hex').slice(0, 16)}`,
    key: deriveKey(masterKey, 'kek'),
  };
}

/** The wrapping keys that this process knows, and the active one. */
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

  /** Adds a master key, so that its secrets can be decrypted. Returns its id. */
  add(masterKey: Buffer): string {
    const wrapping = wrappingKeyOf(masterKey);
    this.#known.set(wrapping.id, wrapping);
    return wrapping.id;
  }

  find(id: string): WrappingKey | undefined {
    return this.#known.get(id);
  }

  /** Makes this key the active one. Returns false, without an effect, for an unknown key. */
  activate(id: string): boolean {
    const wrapping = this.#known.get(id);
    if (wrapping === undefined) return false;
    this.#active = wrapping;
    return true;
  }
}
