import type { Clock } from '../../shared/base/clock.ts';
import type { Log } from '../../shared/base/log.ts';
import type { VerificationKeys } from '../../shared/crypto/signing-key.ts';
import { PolicyCompiler } from '../../shared/policy/engine/compile.ts';
import { type SectionName, sidecarSection, tenantSections } from '../../shared/sync/sections.ts';
import { heartbeatSection, openHeartbeat } from '../../shared/sync/signed-heartbeat.ts';
import { isTenantSection, openSection, sectionDigest } from '../../shared/sync/signed-section.ts';
import { FreshnessGauge, type HeldVersion } from './freshness.ts';
import { applySidecarSection, applyTenantSection, type HeldState } from './held-state.ts';
import { LeaseBook } from './lease-book.ts';
import type { Snapshot } from './snapshot-file.ts';

export interface StoreOptions {
  readonly tenantId: string;
  readonly sidecarId: string;
  /** The keys pinned at enrolment. */
  readonly sectionKeys: VerificationKeys;
  readonly maxStalenessMs: number;
  readonly clock: Clock;
  readonly log: Log;
}

interface Watched extends StoreOptions {
  /** Called if a section or heartbeat was refused because no trusted key signed it. */
  readonly onUnknownSigner?: () => void;
}

/** `found`: existed before this process. `received`: arrived later. */
export type Origin = 'found' | 'received';

interface HeldSection extends HeldVersion {
  readonly token: string;
}

/**
 * Holds the verified sections. A section is accepted only if it is signed by a pinned key, for this
 * tenant, under its own name, and newer than the held one.
 */
export class SectionStore {
  readonly leases: LeaseBook;
  readonly gauge: FreshnessGauge;
  /** A clock based on the publisher's heartbeats. */
  readonly clock: Clock;
  readonly #options: Watched;
  #sectionKeys: VerificationKeys;
  readonly #own: SectionName;
  readonly #held = new Map<string, HeldSection>();
  readonly #compiler = new PolicyCompiler();
  readonly #reported = new Set<string>();
  #state: HeldState = {};
  /** True after a change of keys: the next lease may have existed before this process. */
  #isOwnUnseen = false;
  #heartbeat: string | undefined;
  #lease: { readonly token: string; readonly origin: Origin } | undefined;
  #refused = 0;

  constructor(options: Watched) {
    this.#options = options;
    this.#sectionKeys = options.sectionKeys;
    this.#own = sidecarSection(options.sidecarId);
    this.gauge = new FreshnessGauge(options);
    this.clock = { now: () => this.gauge.now(), monotonic: () => options.clock.monotonic() };
    this.leases = new LeaseBook(options, this.clock);
  }

  get state(): HeldState {
    return this.#state;
  }

  /** Number of sections and heartbeats that were refused. */
  get refused(): number {
    return this.#refused;
  }

  /** True when every section of the tenant is held. */
  get complete(): boolean {
    return tenantSections.every((name) => this.#held.has(name));
  }

  /** The sections to read; the heartbeat is last because it is compared with the others. */
  get names(): readonly string[] {
    return [...tenantSections, this.#own, heartbeatSection];
  }

  versions(): Readonly<Record<string, number>> {
    return Object.fromEntries([...this.#held].map(([name, { version }]) => [name, version]));
  }

  snapshot(): Snapshot {
    const sections = Object.fromEntries([...this.#held].map(([name, { token }]) => [name, token]));
    return { sections, heartbeat: this.#heartbeat };
  }

  /**
   * Trusts only these keys from then on. Also resets the versions, because the holder of a former
   * key may have used high versions. All sections are received again.
   */
  trust(keys: VerificationKeys): void {
    this.#sectionKeys = keys;
    this.#held.clear();
    this.#heartbeat = undefined;
    this.#isOwnUnseen = true;
    this.gauge.restart();
    this.#reported.clear();
  }

  /**
   * Accepts a section or heartbeat if it is valid, and returns whether it was accepted. Never
   * throws.
   */
  take(name: string, token: string, origin: Origin): boolean {
    if (name === heartbeatSection) return this.#takeHeartbeat(token);
    if (!isTenantSection(name) && name !== this.#own) return false;
    return this.#takeSection(name as SectionName, token, origin);
  }

  #takeHeartbeat(token: string): boolean {
    if (token === this.#heartbeat) return false;
    const { tenantId } = this.#options;
    const opened = openHeartbeat(token, this.#sectionKeys, { tenant: tenantId });
    if (!opened.ok) return this.#refuse(heartbeatSection, opened.problem, opened.detail);
    if (!this.gauge.accept(opened.heartbeat)) {
      return this.#refuse(heartbeatSection, 'replayed', 'its sequence was seen before');
    }
    this.#heartbeat = token;
    this.gauge.compare(this.#held);
    return true;
  }

  #takeSection(name: SectionName, token: string, origin: Origin): boolean {
    const held = this.#held.get(name);
    if (held?.token === token) return false;
    const { tenantId } = this.#options;
    const opened = openSection(token, this.#sectionKeys, { tenant: tenantId, section: name });
    if (!opened.ok) return this.#refuse(name, opened.problem, opened.detail);
    const { version } = opened.envelope;
    if (held !== undefined && version <= held.version) {
      return this.#refuse(name, 'older', `version ${version} where ${held.version} is held`);
    }
    try {
      this.#state = this.#applied(name, opened.envelope.body);
    } catch (error) {
      return this.#refuse(name, 'unusable', String(error));
    }
    this.#held.set(name, { version, digest: sectionDigest(token), token });
    this.#followLease(name, this.#isOwnUnseen ? 'found' : origin);
    if (name === this.#own) this.#isOwnUnseen = false;
    this.gauge.compare(this.#held);
    this.#reported.clear();
    return true;
  }

  #applied(name: SectionName, body: unknown): HeldState {
    // `openSection` has already parsed the body as a section of this name.
    return isTenantSection(name)
      ? applyTenantSection(this.#state, name, body as never, this.#compiler)
      : applySidecarSection(this.#state, body as never);
  }

  /** Reads a lease as soon as both the lease and the key that signed it have arrived. */
  #followLease(changed: SectionName, origin: Origin): void {
    const { lease, passportKeys } = this.#state;
    if (changed === this.#own && lease !== this.#lease?.token) {
      this.#lease = lease === undefined ? undefined : { token: lease, origin };
      if (lease === undefined) this.leases.drop();
    }
    if (this.#lease === undefined || passportKeys === undefined) return;
    if (changed !== this.#own && changed !== 'keys') return;
    const { token, origin: came } = this.#lease;
    const problem = this.leases[came](token, passportKeys);
    if (problem !== undefined) this.#refuse('lease', 'unusable', problem);
  }

  /**
   * Logs a refusal. Each kind is logged only once until the next section is accepted, so that an
   * attacker cannot fill the log.
   */
  #refuse(name: string, problem: string, detail: string): false {
    this.#refused += 1;
    if (problem === 'signature_invalid') this.#options.onUnknownSigner?.();
    const kind = `${name} ${problem}`;
    if (this.#reported.has(kind)) return false;
    this.#reported.add(kind);
    this.#options.log.warn({ section: name, problem, detail }, 'refused what stands on the bus');
    return false;
  }
}
