import { GatewayError } from '../../shared/errors.ts';
import type { JsonObject } from '../../shared/json.ts';
import { sidecarSection, tenantSections } from '../../shared/sync/sections.ts';
import { commitChange } from '../events.ts';
import type { Caller } from '../http/route.ts';
import type { Services } from '../services.ts';
import type { Sidecar } from '../store/generated/client.ts';

/** Every sidecar of the tenant, the revoked ones too, oldest first. */
export async function listSidecars(
  { db }: Services,
  { tenantId }: Caller,
): Promise<readonly Sidecar[]> {
  return db.sidecar.findMany({
    where: { tenantId },
    orderBy: [{ enrolledAt: 'asc' }, { id: 'asc' }],
  });
}

/** The version in force of each section of the tenant that every sidecar holds. */
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

/** Notes what a sidecar says of itself. Monitoring, not evidence: each report replaces the last. */
export async function reportSidecar(
  { db, clock }: Services,
  caller: Caller,
  report: JsonObject,
): Promise<Date> {
  const seenAt = new Date(clock.now());
  await db.sidecar.update({
    where: { tenantId_id: { tenantId: caller.tenantId, id: ownId(caller) } },
    data: { lastSeenAt: seenAt, report: { ...report } as Record<string, never> },
  });
  return seenAt;
}

/** Revokes a sidecar for good; its tokens are refused from this moment. Again changes nothing. */
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

/** The calling sidecar as it was enrolled. */
export async function ownSidecar({ db }: Pick<Services, 'db'>, caller: Caller): Promise<Sidecar> {
  const { tenantId } = caller;
  const sidecar = await db.sidecar.findUnique({
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
