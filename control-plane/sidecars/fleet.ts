import { z } from 'zod';
import type { JsonObject } from '../../shared/base/json.ts';
import { report as reportForm } from '../../shared/contract/sidecars.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { sidecarSection, tenantSections } from '../../shared/sync/sections.ts';
import type { Environment } from '../../shared/vocabulary/action.ts';
import { commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import type { Sidecar } from '../platform/store/generated/client.ts';
import { readColumn } from '../platform/store/read-column.ts';
import { evidenceIncidents, reportIncident } from './report-incident.ts';

/** A sidecar, and the incidents of its evidence. */
export interface FleetMember {
  readonly sidecar: Sidecar;
  readonly incidents: { readonly count: number; readonly last: EvidenceIncident } | undefined;
  readonly agentDisabledAt: Date | undefined;
}

interface EvidenceIncident {
  readonly type: string;
  readonly at: Date;
}

/** All sidecars of the tenant, including revoked ones, oldest first. */
export async function listSidecars(
  { db, pool, guard }: Pick<Services, 'db' | 'pool' | 'guard'>,
  { tenantId }: Caller,
): Promise<readonly FleetMember[]> {
  const rows = await db.sidecar.findMany({
    where: { tenantId },
    orderBy: [{ enrolledAt: 'asc' }, { id: 'asc' }],
  });
  const sidecars = rows.filter((row) => guard.holds('sidecar', row));
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

/** Time since when each disabled agent of the tenant is disabled, by agent id. */
async function disabledAgents(
  { db, guard }: Pick<Services, 'db' | 'guard'>,
  tenantId: string,
): Promise<ReadonlyMap<string, Date>> {
  const rows = await db.agent.findMany({ where: { tenantId, disabledAt: { not: null } } });
  const disabled = rows.filter((row) => guard.holds('agent', row));
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
 * Stores a sidecar's status report. It is monitoring, not evidence: each report replaces the last.
 * A spool with fewer records than before is an incident, because the spool itself cannot show the
 * loss.
 */
export async function reportSidecar(
  services: Services,
  caller: Caller,
  report: JsonObject & { readonly spool_written?: number | undefined },
): Promise<Date> {
  const { db, clock } = services;
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
  const seenAt = new Date(clock.now());
  await db.sidecar.update({
    where: { tenantId_id: { tenantId: caller.tenantId, id: ownId(caller) } },
    data: { lastSeenAt: seenAt, report: { ...report } as Record<string, never> },
  });
  return seenAt;
}

const storedReport = z.looseObject({ spool_written: z.number().optional() });

function writtenBefore({ report }: Sidecar): number {
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
  const { result } = await commitChange(services, tenantId, async (tx, notes) => {
    const { count } = await tx.sidecar.updateMany({
      where: { tenantId, id, revokedAt: null },
      data: { revokedAt: now },
    });
    const sidecar = await tx.sidecar.findUnique({ where: { tenantId_id: { tenantId, id } } });
    if (sidecar === null) throw new GatewayError('sidecar.not_found');
    if (count === 1) {
      await notes.signed('sidecar', sidecar);
      notes.sections('revocations', sidecarSection(id));
      await notes.event({
        type: 'sidecar.revoked',
        chainId: `sidecar:${id}`,
        agentId: sidecar.agentId,
        data: { by: principal, sidecar_id: id },
      });
    }
    return sidecar.revokedAt ?? now;
  });
  return result;
}

/** The calling sidecar's enrolment. */
export async function ownSidecar(
  { db, guard }: Pick<Services, 'db' | 'guard'>,
  caller: Caller,
): Promise<Sidecar> {
  const { tenantId } = caller;
  const sidecar = await db.sidecar.findUnique({
    where: { tenantId_id: { tenantId, id: ownId(caller) } },
  });
  if (sidecar === null) throw new GatewayError('auth.sidecar_required');
  guard.assert('sidecar', sidecar);
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
