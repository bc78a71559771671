import type { Heartbeat } from '../../shared/sync/sections.ts';
import {
  heartbeatSection,
  openHeartbeat,
  signHeartbeat,
} from '../../shared/sync/signed-heartbeat.ts';
import type { Services } from '../core/services.ts';
import type { SyncKeys } from '../platform/signing-keys/sync-keys.ts';
import {
  claimHeartbeat,
  type HeartbeatClaim,
  raiseHeartbeatSequence,
} from '../sync/section-versions.ts';

type Deps = Pick<Services, 'db' | 'bus' | 'clock'>;

const triesMax = 3;

interface Beat {
  readonly tenantId: string;
  readonly keys: SyncKeys;
  /** No heartbeat when any process gave one less than this ago. */
  readonly notWithinMs: number;
  /** Carries to the bus what has moved. */
  readonly publishPending: () => Promise<void>;
}

/**
 * Signs that exactly the sections in the database are current, and publishes that. Nothing is
 * signed while a change is committed but not on the bus: a heartbeat never covers for a change
 * that is being kept back. Resolves to false when it was not this process' turn.
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

/** The sections by version and digest; undefined when the bus does not have all of them yet. */
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
      // Another process was faster, or the database was set back: either way go on above it.
      return raiseHeartbeatSequence(db, tenant, opened.heartbeat.sequence);
    }
    if (await bus.replace(tenant, heartbeatSection, { expected: current, value: token })) return;
  }
  throw new Error('the heartbeat keeps changing on the bus');
}
