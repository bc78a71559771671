import { report as reportForm } from '../../shared/contract/sidecars.ts';
import type { Environment } from '../../shared/vocabulary/action.ts';
import { readColumn } from '../platform/store/read-column.ts';
import type { FleetMember } from './fleet.ts';

/** A sidecar as the fleet report shows it; its keys are nobody's business. */
export function sidecarRecord({ sidecar: row, incidents, agentDisabledAt }: FleetMember) {
  return {
    id: row.id,
    agent_id: row.agentId,
    user_id: row.userId,
    environment: row.environment as Environment,
    enrolled_at: row.enrolledAt.toISOString(),
    last_seen_at: row.lastSeenAt?.toISOString(),
    revoked_at: row.revokedAt?.toISOString(),
    agent_disabled_at: agentDisabledAt?.toISOString(),
    acked_record: Number(row.ackedRecord),
    evidence_incidents: incidents?.count ?? 0,
    ...(incidents === undefined
      ? {}
      : {
          last_evidence_incident: {
            type: incidents.last.type,
            at: incidents.last.at.toISOString(),
          },
        }),
    ...(row.report === null
      ? {}
      : { report: readColumn(reportForm, row.report, 'sidecar.report') }),
  };
}
