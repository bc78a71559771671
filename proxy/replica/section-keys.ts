import type { Clock } from '../../shared/base/clock.ts';
import type { Log } from '../../shared/base/log.ts';
import {
  type PublicJwk,
  type VerificationKeys,
  verificationKeys,
} from '../../shared/crypto/signing-key.ts';
import { followSuccession } from '../../shared/sync/key-succession.ts';

/**
 * Minimum interval between requests to the control plane, because anybody on the bus can publish a
 * section with an unknown key.
 */
const askAgainMs = 2_000;

interface SectionKeysOptions {
  readonly tenantId: string;
  /** The keys that were pinned at enrolment, or their successor. */
  readonly pinned: readonly PublicJwk[];
  /**
   * Fetches the control plane's statements about its keys over the sidecar's authenticated channel.
   */
  readonly fetch: () => Promise<readonly string[]>;
  /** Stores a new key permanently. If this throws, the key is not trusted. */
  readonly pin: (key: PublicJwk) => void;
  /** Called with the keys that are trusted after a change; all other keys are rejected. */
  readonly onChange: (keys: VerificationKeys) => void;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * The keys that sections are verified with. A new key is trusted if the trusted key names it
 * (directly or through intermediate keys) and the control plane confirms it. The former key is then
 * rejected at once, because it may have been replaced after a theft.
 */
export class SectionKeys {
  readonly #options: SectionKeysOptions;
  #keys: VerificationKeys;
  #askedAtMs = Number.NEGATIVE_INFINITY;
  #asking = false;

  constructor(options: SectionKeysOptions) {
    this.#options = options;
    this.#keys = verificationKeys(options.pinned);
  }

  /** Called with the id of the key with which the control plane currently signs. */
  noteActive(kid: string): void {
    if (!this.#keys.has(kid) || this.#keys.size > 1) this.follow();
  }

  /** Asks the control plane which key to trust, at most once per `askAgainMs`. */
  follow(): void {
    const nowMs = this.#options.clock.monotonic();
    if (this.#asking || nowMs - this.#askedAtMs < askAgainMs) return;
    this.#asking = true;
    this.#askedAtMs = nowMs;
    this.#follow()
      .catch((err) => this.#options.log.warn({ err }, 'the section keys could not be followed'))
      .finally(() => {
        this.#asking = false;
      });
  }

  async #follow(): Promise<void> {
    const { tenantId, fetch, pin, onChange, log } = this.#options;
    const statements = await fetch();
    const next = followSuccession(statements, { tenant: tenantId, trusted: this.#keys });
    if (next === undefined) return;
    pin(next);
    this.#keys = verificationKeys([next]);
    log.info({ kid: next.kid }, 'sections are signed with another key now');
    onChange(this.#keys);
  }
}
