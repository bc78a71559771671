import { z } from 'zod';
import type { JsonObject } from '../../shared/base/json.ts';
import { report as reportForm } from '../../shared/contract/sidecars.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { tenantSections } from '../../shared/sync/sections.ts';
import type { Environment } from '../../shared/vocabulary/action.ts';
import { commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';
import { claimsOf, type Verified } from '../platform/signed-store/verified.ts';
import type { Sidecar } from '../platform/store/generated/client.ts';
import { readColumn } from '../platform/store/read-column.ts';
import { evidenceIncidents, reportIncident } from './report-incident.ts';
import { type RevocationReason, retireSidecar } from './retire-sidecar.ts';

/** A sidecar, the incidents of its evidence, and when its agent was disabled. */
export interface FleetMember {
  readonly sidecar: Verified<Sidecar>;
  readonly incidents: { readonly count: number; readonly last: EvidenceIncident } | undefined;
  readonly agentDisabledAt: Date | undefined;
}

interface EvidenceIncident {
  readonly type: string;
  readonly at: Date;
}

/** Returns all sidecars of the tenant, including revoked ones, oldest first. */
export async function listSidecars(
  { db, pool, guard }: Pick<Services, 'db' | 'pool' | 'guard'>,
  { tenantId }: Caller,
): Promise<readonly FleetMember[]> {
  const sidecars = await signedRows({ db, guard }, 'sidecar').findValid({
    where: { tenantId },
    orderBy: [{ enrolledAt: 'asc' }, { id: 'asc' }],
  });
  const { rows: incidents } = await pool.query<{
    chain_id: string;
    count: number;
    type: string;
    at: Date;
  }>(
    `select chain_id, count(*)::int as count,
            (array_agg(type order by position desc))[1] as type, max(sealed_at) as at
       from evidence_row where tenant_id = $1 and type = any($2::text[]) group by chain_id`,
    [tenantId, evidenceIncidents],
  );
  const found = new Map(
    incidents.map(({ chain_id: chainId, count, type, at }) => [
      chainId,
      { count, last: { type, at } },
    ]),
  );
  const disabled = await disabledAgents({ db, guard }, tenantId);
  return sidecars.map((sidecar) => ({
    sidecar,
    incidents: found.get(`sidecar:${sidecar.id}`),
    agentDisabledAt: disabled.get(sidecar.agentId),
  }));
}

/** Returns, by agent id, when each disabled agent of the tenant was disabled. */
async function disabledAgents(
  services: Pick<Services, 'db' | 'guard'>,
  tenantId: string,
): Promise<ReadonlyMap<string, Date>> {
  const agents = signedRows(services, 'agent');
  const disabled = await agents.findValid({ where: { tenantId, disabledAt: { not: null } } });
  return new Map(
    disabled.flatMap(({ id, disabledAt: at }) => (at === null ? [] : [[String(id), at]])),
  );
}

/** Current version of each section that every sidecar of the tenant reads. */
export async function currentVersions(
  { db }: Pick<Services, 'db'>,
  { tenantId }: Caller,
): Promise<Record<string, number>> {
  const rows = await db.syncSection.findMany({
    where: { tenantId, name: { in: [...tenantSections] } },
    orderBy: { name: 'asc' },
  });
  return Object.fromEntries(rows.map(({ name, version }) => [name, Number(version)]));
}

/**
 * Stores a sidecar's status report. A report is monitoring data, not evidence, so each report
 * replaces the previous one. A spool with fewer records than before is an incident, because the
 * spool itself cannot show the loss.
 */
export async function reportSidecar(
  services: Services,
  caller: Caller,
  report: JsonObject & { readonly spool_written?: number | undefined },
): Promise<Date> {
  const sidecar = await ownSidecar(services, caller);
  const { spool_written: written } = report;
  const before = Math.max(writtenBefore(sidecar), Number(sidecar.ackedRecord));
  if (written !== undefined && written < before) {
    await reportIncident(services, sidecar, {
      type: 'sidecar.evidence_rewound',
      key: `${before}`,
      data: {
        next_record: written + 1,
        problem: 'the spool was wound back: records may be missing',
        written_before: before,
      },
    });
  }
  const seenAt = new Date(services.clock.now());
  const { tenantId, id } = sidecar;
  const seen = { lastSeenAt: seenAt, report: { ...report } as Record<string, never> };
  await signedRows(services, 'sidecar').updateUnsigned({ tenantId, id }, seen);
  return seenAt;
}

const storedReport = z.looseObject({ spool_written: z.number().optional() });

function writtenBefore({ report }: Verified<Sidecar>): number {
  const stored = readColumn(storedReport, report ?? {}, 'sidecar.report');
  return stored.spool_written ?? 0;
}

/** Revokes a sidecar permanently; its tokens are refused from now on. A repeat changes nothing. */
export async function revokeSidecar(
  services: Services,
  { tenantId, principal }: Caller,
  id: string,
): Promise<Date> {
  const now = new Date(services.clock.now());
  const { result } = await commitChange(services, tenantId, async (_tx, notes) => {
    const sidecars = notes.rows('sidecar');
    const query = { where: { tenantId_id: { tenantId, id } } };
    const found = await sidecars.findUniqueUnverified(query);
    if (found === null) throw new GatewayError('sidecar.not_found');
    const retired = await retireSidecar(notes, found, {
      at: now,
      reason: 'operator',
      by: principal,
    });
    if (retired === undefined) {
      const earlier = (await sidecars.findUniqueUnverified(query)) ?? found;
      return claimsOf(earlier).revokedAt ?? now;
    }
    return now;
  });
  return result;
}

/** The calling sidecar's enrolment. */
export async function ownSidecar(
  services: Pick<Services, 'db' | 'guard'>,
  caller: Caller,
): Promise<Verified<Sidecar>> {
  const { tenantId } = caller;
  const sidecar = await signedRows(services, 'sidecar').findUnique({
    where: { tenantId_id: { tenantId, id: ownId(caller) } },
  });
  if (sidecar === null) throw new GatewayError('auth.sidecar_required');
  if (sidecar.revokedAt !== null) throw new GatewayError('sidecar.revoked');
  return sidecar;
}

function ownId({ sidecarId }: Caller): string {
  if (sidecarId === undefined) throw new GatewayError('auth.sidecar_required');
  return sidecarId;
}

/** A sidecar as the fleet report shows it, without its keys. */
export function sidecarRecord({ sidecar: row, incidents, agentDisabledAt }: FleetMember) {
  return {
    id: row.id,
    agent_id: row.agentId,
    user_id: row.userId,
    environment: row.environment as Environment,
    enrolled_at: row.enrolledAt.toISOString(),
    last_seen_at: row.lastSeenAt?.toISOString(),
    revoked_at: row.revokedAt?.toISOString(),
    revoked_for: (row.revokedFor as RevocationReason | null) ?? undefined,
    workload: workloadOf(row),
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

/** The pod of a sidecar that enrolled with a workload token. */
function workloadOf(row: Verified<Sidecar>) {
  if (row.ruleName === null) return undefined;
  return {
    rule: row.ruleName,
    issuer: row.issuer ?? '',
    namespace: row.namespace ?? '',
    service_account: row.serviceAccount ?? '',
    pod_name: row.podName ?? '',
    pod_uid: row.podUid ?? '',
  };
}
