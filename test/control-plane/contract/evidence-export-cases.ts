import { anEvent } from '../../support/ledger/ledger.ts';
import { type Cases, failsToWrite, succeeds, yields } from './case.ts';
import { fresh, type Stage } from './stage.ts';

/** Returns the key of a tenant whose newest ledger row was changed after sealing. */
async function forked({ services, key }: Stage): Promise<string> {
  const tenantId = fresh('forked');
  await services.ledger.seal(tenantId, anEvent());
  const client = await services.pool.connect();
  try {
    await client.query('SET session_replication_role = replica');
    await client.query(
      `UPDATE evidence_row SET event_hash = 'sha256:' || repeat('0', 64) WHERE tenant_id = $1`,
      [tenantId],
    );
  } finally {
    await client.query('RESET session_replication_role');
    client.release();
  }
  return key({ tenantId });
}

export const evidenceExportCases: Cases = {
  'GET /v1/evidence/export': [
    ...['', '?tool=pay', '?format=json&from=2026-01-01T00:00:00Z'].map((query) =>
      succeeds(200, (ask) => ask({ query })),
    ),
    ...['?format=xml', '?dialect=ocsf', '?format=siem&dialect=x', '?to=now'].map((query) =>
      yields(400, 'request.invalid', (ask) => ask({ query })),
    ),
    failsToWrite('evidence_row', 'evidence.seal_failed', (ask) => ask()),
    yields(500, 'evidence.fork', async (ask, stage) => ask({ key: await forked(stage) })),
  ],
  'GET /v1/evidence/jwks': [succeeds(200, (ask) => ask())],
};
