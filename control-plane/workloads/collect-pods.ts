import { commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import { type Rounds, startRounds } from '../platform/scheduling/rounds.ts';
import { claimedRows } from '../platform/signed-store/claimed-rows.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';
import { retireSidecar } from '../sidecars/retire-sidecar.ts';
import { revokeOrphans } from './revoke-orphans.ts';

const everyMs = 15_000;
const batchSize = 50;
const hourMs = 3_600_000;
/**
 * How long the row of a revoked sidecar is kept. Sidecars learn of the revocation from this row, so
 * it must outlive the revoked sidecar's passports.
 */
const keptMs = 48 * hourMs;

/** Removes the sidecars of removed rules and of pods that no longer exist, in the background. */
export function startPodCollection(services: Services): Rounds {
  return startRounds(() => collect(services), everyMs);
}

async function collect(services: Services): Promise<void> {
  try {
    const query = { where: { ruleName: { not: null } } };
    const pods = await claimedRows(services.db, 'sidecar').findClaims(['tenantId'], query);
    for (const tenantId of new Set(pods.map((pod) => pod.tenantId))) {
      await revokeOrphans(services, tenantId);
      await collectPods(services, tenantId);
    }
  } catch (err) {
    services.log.error({ err }, 'could not remove the sidecars of removed rules and deleted pods');
  }
}

/**
 * Revokes the sidecars of pods that have not reported for the configured time. Deletes the rows of
 * such sidecars that were revoked long ago; the ledger keeps their events. Keeps sidecars that
 * enrolled with an enrolment token. Also keeps those that an operator revoked, because their pods
 * must not enrol again.
 */
export async function collectPods(services: Services, tenantId: string): Promise<void> {
  while ((await revokeUnseen(services, tenantId)) === batchSize);
  await signedRows(services, 'sidecar').remove({
    tenantId,
    ruleName: { not: null },
    revokedFor: { in: ['replaced', 'rule', 'unseen'] },
    revokedAt: { lt: new Date(services.clock.now() - keptMs) },
  });
}

async function revokeUnseen(services: Services, tenantId: string): Promise<number> {
  const { clock, config, db } = services;
  const at = new Date(clock.now());
  const before = new Date(at.getTime() - config.workloadUnseenHours * hourMs);
  const where = {
    tenantId,
    ruleName: { not: null },
    revokedAt: null,
    enrolledAt: { lt: before },
    OR: [{ lastSeenAt: null }, { lastSeenAt: { lt: before } }],
  };
  // Avoids a transaction in the common case of no such sidecar.
  const [any] = await claimedRows(db, 'sidecar').findClaims(['id'], { where, take: 1 });
  if (any === undefined) return 0;
  const { result } = await commitChange(services, tenantId, async (_tx, notes) => {
    const sidecars = notes.rows('sidecar');
    const rows = await sidecars.findUnverified({ where, orderBy: { id: 'asc' }, take: batchSize });
    // A forged row may belong to a sidecar that enrolled with a token, and counts as revoked.
    const unseen = rows.filter((row) => sidecars.isValid(row));
    for (const row of unseen) {
      await retireSidecar(notes, row, { at, reason: 'unseen', by: 'control-plane' });
    }
    return unseen.length;
  });
  return result;
}
