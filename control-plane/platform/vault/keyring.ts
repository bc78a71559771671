import { deriveKey, type WrappingKey } from '../../../shared/crypto/envelope.ts';

const masterKeyBytes = 32;

/** What a master key wraps data keys with: derived from it, and known by an id that tells nothing. */
export function wrappingKeyOf(masterKey: Buffer): WrappingKey {
  if (masterKey.length !== masterKeyBytes) {
    throw new TypeError(`the master key is ${masterKey.length} bytes, not ${masterKeyBytes}`);
  }
  return {
    id: `kek_${deriveKey(masterKey, 'kek-id').toString('hex').slice(0, 16)}`,
    key: deriveKey(masterKey, 'kek'),
  };
}

/** The wrapping keys that this process knows, and the one of them that wraps what is sealed now. */
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

  /** Makes a master key known, so that what it wrapped can be opened. Returns its id. */
  add(masterKey: Buffer): string {
    const wrapping = wrappingKeyOf(masterKey);
    this.#known.set(wrapping.id, wrapping);
    return wrapping.id;
  }

  find(id: string): WrappingKey | undefined {
    return this.#known.get(id);
  }

  /** From now on this one wraps. False when it is not known here: then nothing changes. */
  activate(id: string): boolean {
    const wrapping = this.#known.get(id);
    if (wrapping === undefined) return false;
    this.#active = wrapping;
    return true;
  }
}
