import type { Clock } from '../../shared/base/clock.ts';
import type { Bus } from '../../shared/bus/bus.ts';
import type { VerificationKeys } from '../../shared/crypto/signing-key.ts';
import { isEnforcing } from '../../shared/decision/mode.ts';
import type { AgentRecord, DirectoryUser } from '../../shared/decision/state.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { isRevoked } from '../../shared/passport/lease-passport.ts';
import type { DeliveredApproval, PublishedTool, SectionName } from '../../shared/sync/sections.ts';
import { heartbeatSection } from '../../shared/sync/signed-heartbeat.ts';
import { stricterMode } from '../../shared/vocabulary/action.ts';
import type { AskedDeciders } from '../../shared/vocabulary/deciders.ts';
import type { ToolRecord } from '../../shared/vocabulary/tool-record.ts';
import { BusReader } from './bus-reader.ts';
import type { Age } from './freshness.ts';
import type { LeaseLeft } from './lease-book.ts';
import type { Replica, Revocation, SignedPassport } from './replica.ts';
import { SectionStore, type StoreOptions } from './section-store.ts';
import { type SnapshotFile, snapshotFile } from './snapshot-file.ts';

const heartbeatKeptEveryMs = 5_000;

interface ReplicaOptions extends StoreOptions {
  readonly bus: Bus;
  /** File that keeps the last verified state across restarts. Default: none. */
  readonly snapshotFile?: string | undefined;
}

/**
 * Opens the replica: loads the snapshot on disk, then the sections on the bus, then follows
 * changes. Resolves even if neither the snapshot nor the bus is available; until one of them is
 * available, all calls are denied.
 */
export async function openReplica(options: ReplicaOptions): Promise<Replica> {
  const { snapshotFile: path, log } = options;
  const file = path === undefined ? undefined : snapshotFile(path, log);
  const replica = new LocalReplica(options, file);
  await replica.open();
  return replica;
}

class LocalReplica implements Replica {
  readonly #options: ReplicaOptions;
  readonly #file: SnapshotFile | undefined;
  readonly #store: SectionStore;
  readonly #reader: BusReader;
  readonly #listeners = new Map<string, Set<() => void>>();
  readonly clock: Clock;
  #unknownSigner: (() => void) | undefined;
  #savedAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: ReplicaOptions, file: SnapshotFile | undefined) {
    this.#options = options;
    this.#file = file;
    const onUnknownSigner = () => this.#unknownSigner?.();
    this.#store = new SectionStore({ ...options, onUnknownSigner });
    this.clock = this.#store.clock;
    this.#reader = new BusReader({
      ...options,
      store: this.#store,
      onTaken: (name) => this.#taken(name),
    });
  }

  async open(): Promise<void> {
    const snapshot = await this.#file?.read();
    for (const [name, token] of Object.entries(snapshot?.sections ?? {})) {
      this.#store.take(name, token, 'found');
    }
    if (snapshot?.heartbeat !== undefined) {
      this.#store.take(heartbeatSection, snapshot.heartbeat, 'found');
    }
    await this.#reader.open();
  }

  async close(): Promise<void> {
    await this.#reader.close();
    await this.#file?.flush();
  }

  assertFresh(): void {
    if (!this.#store.complete) throw new GatewayError('sync.no_snapshot');
    if (this.#isSidecarRevoked()) throw new GatewayError('sidecar.revoked');
    const { fresh, reason } = this.freshness();
    if (fresh || !this.#deniesWhenStale()) return;
    throw new GatewayError('policy.update_required', {
      message: `The sidecar’s policies are stale: ${reason}.`,
    });
  }

  freshness(): Age {
    const age = this.#store.gauge.age();
    return this.#store.complete
      ? age
      : { ...age, fresh: false, reason: 'not all sections were received yet' };
  }

  versions(): Readonly<Record<string, number>> {
    return this.#store.versions();
  }

  get refused(): number {
    return this.#store.refused;
  }

  get tenant() {
    return held(this.#store.state.tenant);
  }

  get policies() {
    return held(this.#store.state.policies);
  }

  get bindings() {
    return held(this.#store.state.bindings);
  }

  get killSwitches() {
    return held(this.#store.state.killSwitches);
  }

  get passportKeys() {
    return held(this.#store.state.passportKeys);
  }

  get credentialsVersion(): string {
    const { tenant, credentialsVersion = 0 } = this.#store.state;
    return `${tenant?.credentialsVersion ?? 0}/${credentialsVersion}`;
  }

  agent(id: string): AgentRecord | undefined {
    return held(this.#store.state.agents).get(id);
  }

  user(id: string): DirectoryUser | undefined {
    return held(this.#store.state.users).get(id);
  }

  tool(name: string): ToolRecord | undefined {
    return held(this.#store.state.tools).get(name)?.record;
  }

  publishedTool(name: string): PublishedTool | undefined {
    return held(this.#store.state.tools).get(name)?.published;
  }

  toolsOfForm(formHash: string): readonly string[] {
    return held(this.#store.state.toolForms).get(formHash) ?? [];
  }

  approvedSurface(name: string): string | undefined {
    return this.publishedTool(name)?.approvedSurfaceHash;
  }

  get hasLease(): boolean {
    return this.#store.leases.usable;
  }

  nextUse(): SignedPassport | undefined {
    const claims = this.#store.leases.next();
    if (claims === undefined) {
      this.#reader.askForLease();
      return undefined;
    }
    const revoked = this.isRevoked(claims.jti) || this.#revocations().agentIds.has(claims.sub);
    return { form: 'signed', claims, source: 'lease', revoked, use: 'claimed' };
  }

  leaseLeft(): LeaseLeft {
    return this.#store.leases.left;
  }

  isRevoked(jti: string): boolean {
    return this.#isSidecarRevoked() || isRevoked(jti, this.#revocations().jtis);
  }

  revocationOf(agentId: string): Revocation | undefined {
    if (this.#isSidecarRevoked()) return 'sidecar.revoked';
    return this.#revocations().agentIds.has(agentId) ? 'agent.disabled' : undefined;
  }

  approvalFor(actionDigest: string, terms?: AskedDeciders): DeliveredApproval | undefined {
    return this.#store.state.approvals?.forAction(actionDigest, this.clock.now(), terms);
  }

  standingGrantsFor(
    who: { readonly userId: string; readonly tool: string },
    actionDigest: string,
  ): readonly DeliveredApproval[] {
    return this.#store.state.approvals?.standingFor(who, actionDigest, this.clock.now()) ?? [];
  }

  approvalById(id: number): DeliveredApproval | undefined {
    return this.#store.state.approvals?.byId(id);
  }

  approvalByHash(eventHash: string): DeliveredApproval | undefined {
    return this.#store.state.approvals?.byHash(eventHash);
  }

  trust(keys: VerificationKeys): void {
    this.#store.trust(keys);
    this.#reader.reload();
  }

  onUnknownSigner(listener: () => void): void {
    this.#unknownSigner = listener;
  }

  onChange(section: SectionName, listener: () => void): () => void {
    const listeners = this.#listeners.get(section) ?? new Set();
    // Wraps each listener in a new function. If a listener was added twice, each of the two can
    // then be removed separately.
    const entry = () => listener();
    this.#listeners.set(section, listeners.add(entry));
    return () => listeners.delete(entry);
  }

  #taken(name: string): void {
    const nowMs = this.#options.clock.monotonic();
    // Saves every change of a section at once. Heartbeats arrive every second, so only some of them
    // are saved.
    if (name !== heartbeatSection || nowMs - this.#savedAtMs >= heartbeatKeptEveryMs) {
      this.#savedAtMs = nowMs;
      this.#file?.save(() => this.#store.snapshot());
    }
    for (const listener of [...(this.#listeners.get(name) ?? [])]) {
      try {
        listener();
      } catch (error) {
        this.#options.log.error({ err: error, section: name }, 'a listener of the replica failed');
      }
    }
  }

  #revocations() {
    return held(this.#store.state.revocations);
  }

  #isSidecarRevoked(): boolean {
    return this.#revocations().sidecarIds.has(this.#options.sidecarId);
  }

  /**
   * True if a stale replica denies calls, because the tenant, a kill switch or a policy sets an
   * enforcing mode.
   */
  #deniesWhenStale(): boolean {
    const nowMs = this.clock.now();
    const forced = this.killSwitches.flatMap(({ kind, mode, expiresAtMs }) =>
      kind === 'force_mode' && mode !== undefined && nowMs < (expiresAtMs ?? Infinity)
        ? [mode]
        : [],
    );
    const mode = forced.reduce(stricterMode, this.tenant.mode);
    return isEnforcing(mode) || !this.policies.strict.isEmpty;
  }
}

function held<Value>(value: Value | undefined): Value {
  if (value === undefined) throw new GatewayError('sync.no_snapshot');
  return value;
}
