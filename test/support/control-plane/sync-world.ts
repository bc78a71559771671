import { randomBytes } from 'node:crypto';
import { bindingMac } from '../../../control-plane/bindings/stored-binding.ts';
import { recordEvent } from '../../../control-plane/ledger/sealing/outbox.ts';
import type { RowGuard } from '../../../control-plane/platform/integrity/row-guard.ts';
import { createRowGuard } from '../../../control-plane/platform/integrity/row-guard.ts';
import { createSigningKeys } from '../../../control-plane/platform/signing-keys/signing-keys.ts';
import { openStore, type Store } from '../../../control-plane/platform/store/open.ts';
import type { Transaction } from '../../../control-plane/platform/store/transaction.ts';
import { createVault } from '../../../control-plane/platform/vault/vault.ts';
import {
  createPublisher,
  type PublisherDeps,
  type RunningPublisher,
} from '../../../control-plane/publishing/publisher-loop.ts';
import { openReplica } from '../../../proxy/replica/open-replica.ts';
import type { Replica } from '../../../proxy/replica/replica.ts';
import { type Clock, systemClock } from '../../../shared/base/clock.ts';
import { silentLog } from '../../../shared/base/log.ts';
import type { Binding } from '../../../shared/binding/binding.ts';
import type { Bus } from '../../../shared/bus/bus.ts';
import { generateSigningKey, verificationKeys } from '../../../shared/crypto/signing-key.ts';
import type { PolicyDefinition } from '../../../shared/policy/language/definition.ts';
import { policyHash } from '../../../shared/policy/language/hash.ts';
import type { SectionName } from '../../../shared/sync/sections.ts';
import { handSigned } from './hand-signed.ts';

/** One master key for all tenants, as in one installation. */
const vault = createVault(randomBytes(32));

interface WorldOptions {
  readonly store: Store;
  readonly bus: Bus;
  readonly clock?: Clock;
  readonly tenantId?: string;
}

/** A tenant in a real database, and the publisher that publishes the tenant's sections to a bus. */
export class SyncWorld {
  readonly store: Store;
  readonly bus: Bus;
  readonly clock: Clock;
  readonly tenantId: string;
  readonly vault = vault;
  readonly guard: RowGuard;
  /** Tests write rows directly through this client, which signs them. */
  readonly db: Store['db'];
  readonly signingKeys: ReturnType<typeof createSigningKeys>;
  readonly deps: PublisherDeps;

  private constructor({ store, bus, clock = systemClock, tenantId = 'acme' }: WorldOptions) {
    this.store = store;
    this.bus = bus;
    this.clock = clock;
    this.tenantId = tenantId;
    const { db } = store;
    this.guard = createRowGuard({ pool: store.pool, clock, log: silentLog, vault });
    this.db = handSigned(db, this.guard);
    this.signingKeys = createSigningKeys({ db, vault, clock, guard: this.guard });
    this.deps = {
      db,
      bus,
      clock,
      log: silentLog,
      vault,
      guard: this.guard,
      signingKeys: this.signingKeys,
      ledger: {
        record: (tx, tenantId, event) => recordEvent(tx, { tenantId, vault }, event),
      },
    };
  }

  static async open(options: WorldOptions): Promise<SyncWorld> {
    const world = new SyncWorld(options);
    const { tenantId } = world;
    await world.db.tenant.create({ data: { id: tenantId, name: tenantId } });
    return world;
  }

  /**
   * Creates a separate publisher, as another process would. Its interval is long, because tests
   * start its rounds themselves.
   */
  publisher(change: Partial<PublisherDeps> = {}): RunningPublisher {
    return createPublisher({ ...this.deps, roundMs: 60_000, ...change });
  }

  /** Changes data and publishes the affected sections. */
  async change(
    publisher: RunningPublisher,
    sections: readonly SectionName[],
    work: (tx: Transaction) => Promise<unknown> = async () => {},
  ): Promise<void> {
    await this.store.db.$transaction(async (tx) => {
      await work(handSigned(tx, this.guard));
      await publisher.changed(tx, this.tenantId, ...sections);
    });
  }

  async agent(name = 'bot', capabilities: readonly string[] = ['pay.*']): Promise<string> {
    const { id } = await this.db.agent.create({
      data: { tenantId: this.tenantId, name, capabilities: [...capabilities], goal: 'pay bills' },
    });
    return String(id);
  }

  async sidecar(id: string, agentId: string): Promise<void> {
    const { publicJwk } = generateSigningKey();
    await this.db.sidecar.create({
      data: {
        id,
        tenantId: this.tenantId,
        agentId,
        userId: 'ann',
        environment: 'prod',
        signingJwk: { ...publicJwk },
        encryptionJwk: { ...publicJwk },
        enrolledAt: new Date(this.clock.now()),
      },
    });
  }

  async policy(tx: Transaction, definition: PolicyDefinition): Promise<void> {
    await tx.policy.create({
      data: {
        tenantId: this.tenantId,
        name: definition.id,
        definitionId: definition.id,
        version: definition.version,
        lifecycle: 'published',
        definition: JSON.stringify(definition),
        policyHash: policyHash(definition),
        createdBy: 'test',
      },
    });
  }

  async binding(tx: Transaction, binding: Binding): Promise<void> {
    const { tenantId } = this;
    const { name, protocol, host } = binding;
    const mac = bindingMac(this.vault, { tenantId, binding });
    const definition = { ...binding } as object;
    await tx.binding.create({
      data: { tenantId, name, protocol, host, definition, mac, updatedBy: 'test' },
    });
  }

  /** Returns the keys that a sidecar would pin if it enrolled at this moment. */
  async sectionKeys() {
    const { publicJwk } = await this.signingKeys.active(this.tenantId, 'sync');
    return verificationKeys([publicJwk]);
  }

  /** Retires the section key and creates another, without publishing any section. */
  async rotateSyncKey(): Promise<void> {
    const { tenantId, clock } = this;
    await this.db.signingKey.updateMany({
      where: { tenantId, purpose: 'sync', state: 'active' },
      data: { state: 'retired', retiredAt: new Date(clock.now()) },
    });
    await this.signingKeys.active(tenantId, 'sync');
  }

  async replica(sidecarId: string, bus = this.bus): Promise<Replica> {
    return openReplica({
      bus,
      tenantId: this.tenantId,
      sidecarId,
      sectionKeys: await this.sectionKeys(),
      maxStalenessMs: 30_000,
      clock: this.clock,
      log: silentLog,
    });
  }

  versions(): Promise<readonly { name: string; version: bigint; publishedVersion: bigint }[]> {
    return this.store.db.syncSection.findMany({
      where: { tenantId: this.tenantId },
      orderBy: { name: 'asc' },
      select: { name: true, version: true, publishedVersion: true },
    });
  }
}

export function openTestStore(databaseUrl: string): Promise<Store> {
  return openStore({ databaseUrl, dataDir: '', log: silentLog });
}
