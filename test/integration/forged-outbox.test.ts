import { afterAll, beforeAll, expect, it } from 'vitest';
import { outboxMac } from '../../control-plane/platform/integrity/outbox-mac.ts';
import { createVault } from '../../control-plane/platform/vault/vault.ts';
import { anEvent, openLedger, type TestLedger, testVault } from '../support/ledger/ledger.ts';
import { freshDatabase } from '../support/programs/postgres.ts';

const otherVault = createVault(Buffer.alloc(32, 8));

interface Waiting {
  readonly tenantId: string;
  readonly eventId: string;
  readonly event: string;
}

let ledger: TestLedger;
let database: Awaited<ReturnType<typeof freshDatabase>>;
let tenants = 0;
beforeAll(async () => {
  database = await freshDatabase();
  ledger = await openLedger({ databaseUrl: database.url });
});
afterAll(async () => {
  await ledger.close();
  await database.drop();
});

it.each([
  ['has no MAC', () => null],
  ['has a MAC of another key', (row: Waiting) => outboxMac(otherVault, row)],
  [
    'has the MAC of another row',
    (row: Waiting) => outboxMac(testVault, { ...row, eventId: 'ev_other' }),
  ],
  [
    'belongs to another tenant',
    (row: Waiting) => outboxMac(testVault, { ...row, tenantId: 'other' }),
  ],
])('the sealer seals an incident instead of an event whose outbox row %s', async (_what, macOf) => {
  tenants += 1;
  const tenantId = `tenant_${tenants}`;
  const { pool } = ledger.store;
  const event = anEvent({ type: 'binding.removed', chain_id: 'bindings:pay' });
  const row = { tenantId, eventId: event.id, event: JSON.stringify(event) };
  await pool.query(
    'INSERT INTO event_outbox (tenant_id, event_id, event, mac) VALUES ($1, $2, $3, $4)',
    [tenantId, row.eventId, row.event, macOf(row)],
  );
  await expect(ledger.sealed(tenantId, event.id)).rejects.toMatchObject({
    code: 'evidence.seal_failed',
  });
  const sealed = await pool.query<{ type: string; canonical: string }>(
    'SELECT type, canonical FROM evidence_row WHERE tenant_id = $1',
    [tenantId],
  );
  expect(sealed.rows.map(({ canonical }) => JSON.parse(canonical))).toMatchObject([
    {
      type: 'integrity.forged_row',
      chain_id: 'integrity:rows',
      data: { table: 'event_outbox', row_id: event.id },
    },
  ]);
  const left = await pool.query('SELECT 1 FROM event_outbox WHERE tenant_id = $1', [tenantId]);
  expect(left.rowCount).toBe(0);
  expect((await ledger.verify(tenantId)).ok).toBe(true);
});
