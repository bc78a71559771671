import type { Environment } from '../../shared/decision/action.ts';
import type { Sidecar } from '../store/generated/client.ts';

/** A sidecar as the fleet report shows it; its keys are nobody's business. */
export function sidecarRecord(row: Sidecar) {
  return {
    id: row.id,
    agent_id: row.agentId,
    user_id: row.userId,
    environment: row.environment as Environment,
    enrolled_at: row.enrolledAt.toISOString(),
    last_seen_at: row.lastSeenAt?.toISOString(),
    revoked_at: row.revokedAt?.toISOString(),
    acked_record: Number(row.ackedRecord),
    ...(row.report === null ? {} : { report: { ...(row.report as Record<string, never>) } }),
  };
}
