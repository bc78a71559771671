import type { Heartbeat } from '../../shared/sync/sections.ts';
import {
  heartbeatSection,
  openHeartbeat,
  signHeartbeat,
} from '../../shared/sync/signed-heartbeat.ts';
import {
  claimHeartbeat,
  type HeartbeatClaim,
  raiseHeartbeatSequence,
} from '../core/section-versions.ts';
import type { Services } from '../core/services.ts';
import type { SyncKeys } from '../platform/signing-keys/sync-keys.ts';

type Deps = Pick<Services, 'db' | 'bus' | 'clock'>;

const triesMax = 3;

interface Beat {
  readonly tenantId: string;
  readonly keys: SyncKeys;
  /** Minimum time that must have passed since the last heartbeat of any process. */
  readonly notWithinMs: number;
  /** Publishes pending sections. */
  readonly publishPending: () => Promise<void>;
}

/**
 * Signs and publishes a statement that the sections in the database, and no others, are current.
 * Signs nothing while a committed change is missing on the bus, so a heartbeat never hides a
 * withheld change. Returns false if another process published a heartbeat recently.
 */
export async function beat(deps: Deps, { tenantId, keys, ...options }: Beat): Promise<boolean> {
  for (let tries = 0; tries < triesMax; tries++) {
    const nowMs = deps.clock.now();
    const notWithinMs = tries === 0 ? options.notWithinMs : 0;
    const turn = await deps.db.$transaction((tx) =>
      claimHeartbeat(tx, tenantId, { nowMs, notWithinMs }),
    );
    if (turn === undefined) return false;
    const sections = publishedSections(turn);
    if (sections !== undefined) {
      const { sequence } = turn;
      await publish(deps, { tenant: tenantId, sequence, time: nowMs, sections }, keys);
      return true;
    }
    await options.publishPending();
  }
  throw new Error('sections keep changing faster than they are published');
}

/**
 * Returns the version and digest of each section, or undefined if a section is not on the bus yet.
 */
function publishedSections({ sections }: HeartbeatClaim): Heartbeat['sections'] | undefined {
  const named: Record<string, { version: number; digest: string }> = {};
  for (const { name, version, publishedVersion, digest } of sections) {
    if (publishedVersion !== version || digest === null) return undefined;
    named[name] = { version, digest };
  }
  return named;
}

async function publish(
  { db, bus }: Deps,
  heartbeat: Heartbeat,
  { signing, verification }: SyncKeys,
): Promise<void> {
  const { tenant } = heartbeat;
  const token = signHeartbeat(heartbeat, signing);
  for (let tries = 0; tries < triesMax; tries++) {
    const current = await bus.read(tenant, heartbeatSection);
    const opened =
      current === undefined ? undefined : openHeartbeat(current, verification, { tenant });
    if (opened?.ok && opened.heartbeat.sequence >= heartbeat.sequence) {
      // Another process was faster, or the database was rolled back. In both cases, later
      // heartbeats must have a higher sequence than the one on the bus.
      return raiseHeartbeatSequence(db, tenant, opened.heartbeat.sequence);
    }
    if (await bus.replace(tenant, heartbeatSection, { expected: current, value: token })) return;
  }
  throw new Error('the heartbeat keeps changing on the bus');
}
