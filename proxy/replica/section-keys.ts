import type { Clock } from '../../shared/base/clock.ts';
import type { Log } from '../../shared/base/log.ts';
import {
  type PublicJwk,
  type VerificationKeys,
  verificationKeys,
} from '../../shared/crypto/signing-key.ts';
import { followSuccession } from '../../shared/sync/key-succession.ts';

/** Anybody on the bus can show a text of an unknown key: the control plane is not asked each time. */
const askAgainMs = 2_000;

interface SectionKeysOptions {
  readonly tenantId: string;
  /** Pinned at enrolment, or followed to since. */
  readonly pinned: readonly PublicJwk[];
  /** The control plane's statements about its keys, over the sidecar's own authenticated channel. */
  readonly fetch: () => Promise<readonly string[]>;
  /** Keeps a new key over restarts; may throw, and then the key is not believed. */
  readonly pin: (key: PublicJwk) => void;
  /** Told of the keys that are believed from now on, and they alone. */
  readonly onChange: (keys: VerificationKeys) => void;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * The keys that sections are verified with. A new key is trusted once the trusted key names it
 * (directly or over others) and the control plane confirms it. The former key is rejected at once,
 * because it may have been replaced after a theft.
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

  /** The control plane signs with the key of this id now. */
  noteActive(kid: string): void {
    if (!this.#keys.has(kid) || this.#keys.size > 1) this.follow();
  }

  /** Asks the control plane which key is to be believed; soon again at the earliest. */
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
