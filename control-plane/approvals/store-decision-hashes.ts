import { sidecarSection } from '../../shared/sync/sections.ts';
import type { Services } from '../core/services.ts';
import { transaction } from '../platform/store/transaction.ts';

/**
 * Stores with each approval the hash of the ledger row that proves its decision, as soon as that
 * row is sealed. A grant without this hash cannot be used.
 */
export async function storeDecisionHashes(
  { db, publisher }: Pick<Services, 'db' | 'publisher'>,
  tenantId: string,
): Promise<void> {
  const settled = await transaction(db, async (tx) => {
    const rows = await tx.$queryRaw<{ sidecar_id: string | null }[]>`
      with settled as (
      update approval a set event_hash = e.event_hash
      from evidence_row e
      where a.tenant_id = ${tenantId} and a.event_id is not null and a.event_hash is null
        and e.tenant_id = a.tenant_id and e.event_id = a.event_id
      returning a.tenant_id, a.sidecar_id, a.agent_id, a.grant_scope)
      select sidecar_id from settled
      union
      select c.id from settled s
      join sidecar c on c.tenant_id = s.tenant_id and c.agent_id = s.agent_id
      where s.grant_scope is not null and c.revoked_at is null`;
    const sections = new Set(rows.flatMap(({ sidecar_id: id }) => (id === null ? [] : [id])));
    if (sections.size > 0) {
      await publisher.changed(tx, tenantId, ...[...sections].map(sidecarSection));
    }
    return rows.length;
  });
  if (settled > 0) publisher.nudge();
}
