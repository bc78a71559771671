import type { Clock } from '../../shared/base/clock.ts';
import type { Log } from '../../shared/base/log.ts';
import type { KubernetesApi } from '../kubernetes/api.ts';
import { expiryMs, type Material, renewed } from './material.ts';
import { publishAuthorities, type WebhookConfigurations } from './publish.ts';
import { shareMaterial } from './secret.ts';

interface RotationOptions {
  readonly api: KubernetesApi;
  readonly clock: Clock;
  readonly log: Log;
  /** DNS name of the webhook's service. */
  readonly host: string;
  readonly secret: { readonly namespace: string; readonly name: string };
  readonly configurations: WebhookConfigurations;
}

const intervalMs = 30_000;

/** Keeps the webhook's certificate valid, together with the other replicas. */
export class Rotation {
  readonly #options: RotationOptions;
  #material: Material | undefined;
  #present: (material: Material) => void = () => {};
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(options: RotationOptions) {
    this.#options = options;
  }

  /** The first material. Throws if the API server does not store it. */
  async start(): Promise<Material> {
    return this.#share();
  }

  /** Repeats the check until `close`. `present` is called with each new material. */
  follow(present: (material: Material) => void): void {
    this.#present = present;
    const next = async () => {
      await this.check();
      // A random part keeps replicas from checking at the same moment.
      const delayMs = intervalMs * (0.75 + Math.random() / 2);
      if (!this.#isClosed) this.#timer = setTimeout(() => void next(), delayMs).unref();
    };
    void next();
  }

  /** Renews what is due, and publishes the authorities. Failures are logged; the next check retries. */
  async check(): Promise<void> {
    const { api, configurations, log } = this.#options;
    try {
      const { authorities } = await this.#share();
      await publishAuthorities(api, configurations, authorities);
    } catch (error) {
      log.error({ err: error }, 'the certificate of the webhook could not be checked');
      this.#renewAlone();
    }
  }

  /**
   * Renews the leaf in this replica's memory only, because it could not be stored. Clients can
   * verify such a leaf if the API server already trusts its authority.
   */
  #renewAlone(): void {
    const { clock, host } = this.#options;
    const current = this.#material;
    if (current === undefined) return;
    const next = renewed(current, { nowMs: clock.now(), host });
    if (next.authorities[0] === current.authorities[0]) this.#adopt(next);
  }

  /** The reason why no client can verify this webhook now; undefined if clients can. */
  problem(): string | undefined {
    if (this.#material === undefined) return 'There is no certificate yet.';
    return expiryMs(this.#material) > this.#options.clock.now()
      ? undefined
      : 'The certificate expired, and the API server stores no new one.';
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  async #share(): Promise<Material> {
    const { api, clock, host, secret } = this.#options;
    const material = await shareMaterial(api, secret, (current) =>
      renewed(current, { nowMs: clock.now(), host }),
    );
    this.#adopt(material);
    return material;
  }

  #adopt(material: Material): void {
    const isNew = material.cert !== this.#material?.cert;
    this.#material = material;
    if (!isNew) return;
    const expires = new Date(expiryMs(material)).toISOString();
    this.#options.log.info({ expires }, 'the webhook presents a new certificate');
    this.#present(material);
  }
}
