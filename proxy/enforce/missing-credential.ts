import type { Binding, HeldCredential } from '../../shared/binding/binding.ts';
import type { Clock } from '../../shared/clock.ts';
import type { Log } from '../../shared/log.ts';
import type { Credentials } from '../replica/credentials.ts';
import { namedHost } from './near-host.ts';

const warnEveryMs = 60_000;
const bindingsMax = 1_000;

/** Whether a call on a bound host is sent without a stored credential. */
export function lacksCredential(
  binding: Binding | undefined,
  credential: HeldCredential | undefined,
): binding is Binding {
  return binding !== undefined && binding.protocol !== 'passthrough' && credential === undefined;
}

interface MissingCredentialOptions {
  readonly credentials: Pick<Credentials, 'hosts'>;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * Warns of bound calls that are sent without a stored credential where one seems to be meant:
 * one is bound to the same host on another port or under another name of this machine, or the
 * upstream answered 401 or 403. Once a minute for each binding.
 */
export class MissingCredentials {
  readonly #options: MissingCredentialOptions;
  readonly #warnedAtMs = new Map<string, number>();

  constructor(options: MissingCredentialOptions) {
    this.#options = options;
  }

  /** `status` is what the upstream answered, if it answered. */
  report(binding: Binding, status: number | undefined): void {
    const { clock, log } = this.#options;
    const nearest = this.#nearestTo(binding.host);
    if (nearest === undefined && status !== 401 && status !== 403) return;
    const nowMs = clock.monotonic();
    const warnedAtMs = this.#warnedAtMs.get(binding.name);
    if (warnedAtMs !== undefined && nowMs - warnedAtMs < warnEveryMs) return;
    // Bindings come and go; what is forgotten is reported once more.
    if (this.#warnedAtMs.size >= bindingsMax) this.#warnedAtMs.clear();
    this.#warnedAtMs.set(binding.name, nowMs);
    const { name, host } = binding;
    const fields = {
      binding: name,
      host,
      credential_host: nearest ?? null,
      status: status ?? null,
    };
    log.warn(
      fields,
      'a bound call was sent without a stored credential: bind one to its tool and host, with the port',
    );
  }

  #nearestTo(host: string): string | undefined {
    const { name } = namedHost(host);
    return this.#options.credentials.hosts().find((other) => namedHost(other).name === name);
  }
}
