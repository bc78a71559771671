import type { Store } from '../../../control-plane/platform/store/open.ts';
import type { RunningPublisher } from '../../../control-plane/publishing/publisher-loop.ts';
import type { Replica } from '../../../proxy/replica/replica.ts';
import { silentLog } from '../../../shared/base/log.ts';
import type { Bus } from '../../../shared/bus/bus.ts';
import { openBus } from '../../../shared/bus/open.ts';
import { verificationKeys } from '../../../shared/crypto/signing-key.ts';
import { readPassport } from '../../../shared/passport/verify.ts';
import { sidecarSection } from '../../../shared/sync/sections.ts';
import { openSection } from '../../../shared/sync/signed-section.ts';
import { type ManualClock, manualClock } from '../../support/base/manual-clock.ts';
import { SyncWorld } from '../../support/control-plane/sync-world.ts';

export const sidecarId = 'sc_1';
export const own = sidecarSection(sidecarId);

/**
 * The stage for tests of one sidecar's section on the bus: a tenant with one agent, and a publisher that
 * tests run step by step.
 */
export interface SectionStage {
  readonly clock: ManualClock;
  readonly bus: Bus;
  readonly world: SyncWorld;
  readonly agentId: string;
  readonly running: RunningPublisher;
  readonly ending: (() => Promise<unknown>)[];
}

/** Empties the database and creates a new stage. */
export async function sectionStage(store: Store): Promise<SectionStage> {
  await store.pool.query(
    'truncate tenant, agent, sidecar, passport, sync_section, event_outbox, approval, policy, passport_revocation, signing_key cascade',
  );
  const clock = manualClock();
  const bus = await openBus({ redisUrl: undefined, log: silentLog, clock });
  const world = await SyncWorld.open({ store, bus, clock });
  const agentId = await world.agent();
  await world.sidecar(sidecarId, agentId);
  const running = world.publisher({ roundMs: 1_000 });
  const ending = [() => bus.close(), () => running.close()];
  return { clock, bus, world, agentId, running, ending };
}

export async function endStage({ ending }: SectionStage): Promise<void> {
  for (const end of ending.splice(0).reverse()) await end();
}

/** Reads the sidecar's section from the bus and verifies it. */
export async function ownSection({ bus, world }: SectionStage) {
  const token = (await bus.read(world.tenantId, own)) ?? '';
  const expected = { tenant: world.tenantId, section: own };
  const opened = openSection(token, await world.sectionKeys(), expected);
  if (!opened.ok) throw new Error(opened.detail);
  return opened.envelope;
}

/** Verifies the signature of a passport and returns the claims. */
export async function passportOf({ world }: SectionStage, token: string | undefined) {
  const keys = verificationKeys(await world.signingKeys.publicKeys(world.tenantId, 'passport'));
  const reading = readPassport(token ?? '', keys);
  if (reading.form !== 'signed') throw new Error(reading.detail);
  return reading.claims;
}

export async function openReplicaOf({ world, ending }: SectionStage): Promise<Replica> {
  const opened = await world.replica(sidecarId);
  ending.push(() => opened.close());
  return opened;
}

/** Returns the events in the outbox, oldest first. */
export async function recorded(store: Store) {
  const rows = await store.db.eventOutbox.findMany({ orderBy: { id: 'asc' } });
  return rows.map(({ event }) => JSON.parse(event));
}
