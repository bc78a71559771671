import { setTimeout as delay } from 'node:timers/promises';
import type { Confirmation } from '../../shared/contract/kill-switches.ts';
import type { TenantSection } from '../../shared/sync/sections.ts';
import { readSections } from '../core/section-versions.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';

const section: TenantSection = 'kill_switches';
/**
 * Sidecars report every ten seconds. The control plane does not wait for a sidecar that missed
 * three reports.
 */
const liveMs = 30_000;
/** A sidecar that did not report for this long is not listed. */
const namedMs = 10 * 60_000;
const pollMs = 100;

interface Waiting {
  /** Undefined if the caller does not wait. */
  readonly waitMs: number | undefined;
  /** Aborted when the caller disconnects. */
  readonly signal: AbortSignal;
}

/**
 * Waits at most `waitMs` until all live sidecars apply the tenant's current kill switches, and
 * lists the sidecars that apply them. Reads the sidecars' reports from the database, because any
 * control plane may have received them.
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
  // A tenant without changes has no row yet, and its sidecars have no version.
  return row ?? { version: 0, publishedVersion: 0 };
}

/**
 * Returns the published version that contains the change, or undefined until the change is
 * published. The published version can exceed the committed one: after a database rollback, the
 * publisher moves above the versions that sidecars already have.
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

/**
 * Reads the sidecars' reports. An enrolment counts as a report, so the confirmation also waits for
 * a new sidecar.
 */
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
