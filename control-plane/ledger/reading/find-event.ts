import type { Pool } from 'pg';
import { idTimeMs } from '../../../shared/base/ids.ts';
import { GatewayError } from '../../../shared/errors/gateway-error.ts';

/**
 * Finds an event's text and stored key by its bare id. The key of a sidecar's event includes the
 * sidecar, because sidecars choose the ids of their events.
 */
export async function findEvent(
  pool: Pool,
  tenantId: string,
  id: string,
): Promise<{ readonly key: string; readonly canonical: string }> {
  const { rows } = await pool.query<{ event_id: string; canonical: string }>(statement, [
    tenantId,
    id,
    (idTimeMs(id) ?? 0) / 1000,
  ]);
  const [row, another] = rows;
  if (row === undefined) throw new GatewayError('evidence.event_not_found');
  if (another !== undefined) {
    throw new GatewayError('evidence.id_conflict', {
      message: 'Several sidecars recorded an event under this id.',
    });
  }
  return { key: row.event_id, canonical: row.canonical };
}

// An event id contains the event's time, so the search reads only part of the ledger.
const statement = `
SELECT event_id, canonical FROM evidence_row WHERE tenant_id = $1 AND event_id = $2
UNION ALL
SELECT event_id, canonical FROM evidence_row
 WHERE tenant_id = $1 AND right(event_id, length($2) + 1) = '/' || $2
   AND occurred_at BETWEEN to_timestamp($3::float8 - 5) AND to_timestamp($3::float8 + 5)
LIMIT 2`;
