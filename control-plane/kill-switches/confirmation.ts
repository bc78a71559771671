import { setTimeout as delay } from 'node:timers/promises';
import type { Confirmation } from '../../shared/contract/kill-switches.ts';
import type { TenantSection } from '../../shared/sync/sections.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { readSections } from '../sync/section-versions.ts';

const section: TenantSection = 'kill_switches';
/** Sidecars report every ten seconds: who has been silent for three reports is not waited for. */
const liveMs = 30_000;
/** Who has been silent for longer than this is not even named. */
const namedMs = 10 * 60_000;
const pollMs = 100;

interface Waiting {
  /** Undefined: nobody asked. */
  readonly waitMs: number | undefined;
  /** Aborted when the caller is gone. */
  readonly signal: AbortSignal;
}

/**
 * Which sidecars decide by the tenant's kill switches as they stand now: waits for the live ones,
 * at most this long. Their reports are read from the database, so that it does not matter which
 * control plane they report to.
 */
export async function waitForConfirmation(
  services: Pick<Services, 'db' | 'pool' | 'clock'>,
  { tenantId }: Caller,
  { waitMs, signal }: Waiting,
): Promise<Confirmation | undefined> {
  if (waitMs === undefined) return undefined;
  const deadline = performance.now() + waitMs;
  const { version: wanted } = await sectionNow(services, tenantId);
  let target: number | undefined;
  for (;;) {
    target ??= await publishedFrom(services, tenantId, wanted);
    const confirmation = await readFleet(services, tenantId, target);
    const leftMs = deadline - performance.now();
    if (confirmation.missing.length === 0 || leftMs <= 0 || signal.aborted) return confirmation;
    await delay(Math.min(pollMs, leftMs));
  }
}

async function sectionNow({ db }: Pick<Services, 'db'>, tenantId: string) {
  const [row] = await readSections(db, tenantId, [section]);
  // A tenant has no row before its first change or round; nothing can hold that either.
  return row ?? { version: 0, publishedVersion: 0 };
}

/**
 * The version that carried the change to the bus. Not the one it was committed under: where the
 * database was set back, sidecars hold higher ones of before, and the publisher moves beyond them.
 */
async function publishedFrom(
  services: Pick<Services, 'db'>,
  tenantId: string,
  wanted: number,
): Promise<number | undefined> {
  const { publishedVersion } = await sectionNow(services, tenantId);
  return publishedVersion >= wanted ? publishedVersion : undefined;
}

interface FleetRow {
  readonly id: string;
  readonly seen: Date;
  readonly held: string | null;
}

/** Enrolling is a sign of life, too: a sidecar that has just begun is waited for. */
async function readFleet(
  { pool, clock }: Pick<Services, 'pool' | 'clock'>,
  tenantId: string,
  target: number | undefined,
): Promise<Confirmation> {
  const nowMs = clock.now();
  const { rows } = await pool.query<FleetRow>(
    `select id, greatest(last_seen_at, enrolled_at) as seen, report->'versions'->>$2::text as held
       from sidecar
      where tenant_id = $1 and revoked_at is null and greatest(last_seen_at, enrolled_at) > $3
      order by enrolled_at, id`,
    [tenantId, section, new Date(nowMs - namedMs)],
  );
  const isConfirmed = ({ held }: FleetRow) => target !== undefined && Number(held ?? 0) >= target;
  const others = rows.filter((row) => !isConfirmed(row));
  const isLive = ({ seen }: FleetRow) => nowMs - seen.getTime() <= liveMs;
  return {
    confirmed: rows.filter(isConfirmed).map(({ id }) => id),
    missing: others.filter(isLive).map(silentOf),
    silent: others.filter((row) => !isLive(row)).map(silentOf),
  };
}

function silentOf({ id, seen }: FleetRow) {
  return { sidecar: id, last_seen_at: seen.toISOString() };
}
