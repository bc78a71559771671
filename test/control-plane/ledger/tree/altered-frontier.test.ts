import { expect, it } from 'vitest';
import { rotateSigningKey } from '../../../../control-plane/keys/rotate-signing-key.ts';
import { verifyChain } from '../../../../control-plane/ledger/verification/verify-chain.ts';
import type { Caller } from '../../../../control-plane/platform/access/caller.ts';
import { until } from '../../../support/base/until.ts';
import { oneDatabase } from '../../../support/control-plane/one-database.ts';
import { eventsOf } from '../../../support/control-plane/services.ts';
import { anEvent, tamper } from '../../../support/ledger/ledger.ts';

const database = oneDatabase();
const { begin, endAll } = database;

function callerOf(tenantId: string): Caller {
  return {
    tenantId,
    keyId: 'key_test',
    kind: 'key',
    principal: 'ada',
    role: 'owner',
    scope: 'tenant',
    permissions: new Set(),
    address: '127.0.0.1',
  };
}

const seven = () => Array.from({ length: 7 }, () => anEvent());

it.each([
  ['with a wrong root', (roots: readonly string[]) => [...roots.slice(0, -1), 'a'.repeat(64)]],
  ['with too few roots', (roots: readonly string[]) => roots.slice(1)],
] as const)(
  'a stored tree frontier %s stops sealing and is recorded as one incident',
  async (name, change) => {
    const tenantId = `tenant ${name}`;
    const before = await begin();
    await before.ledger.sealAll(tenantId, seven());
    const { rows } = await before.pool.query<{ frontier: string[] }>(
      'SELECT frontier FROM evidence_head WHERE tenant_id = $1',
      [tenantId],
    );
    const frontier = rows[0]?.frontier ?? [];
    // A running process has the correct tree in memory and would continue with it.
    await endAll();
    const put = (roots: readonly string[]) =>
      tamper(
        database.url,
        `UPDATE evidence_head SET frontier = '{${roots.join(',')}}' WHERE tenant_id = '${tenantId}'`,
      );
    await put(change(frontier));
    const services = await begin();
    for (const event of seven().slice(0, 2)) {
      const [outcome] = await services.ledger.sealKept(tenantId, [event]);
      expect(outcome).toMatchObject({ reason: { cause: { code: 'evidence.fork' } } });
    }
    const incidents = async () =>
      (await eventsOf(services, tenantId)).filter(({ type }) => type === 'evidence.fork');
    await until(async () => (await incidents()).length > 0, { what: 'the incident is kept' });
    expect(await verifyChain(services, tenantId)).toMatchObject({ events: 7 });
    // After the repair, the waiting events are sealed.
    await put(frontier);
    await services.ledger.retry(tenantId);
    await services.ledger.seal(tenantId, anEvent());
    expect(await incidents()).toHaveLength(1);
    expect(await verifyChain(services, tenantId)).toMatchObject({ ok: true });
  },
);

it('two processes can seal alternately after a rotation of the checkpoint key', async () => {
  const tenantId = 'rotated';
  const first = await begin();
  const other = await begin();
  await other.ledger.sealAll(tenantId, seven());
  await first.ledger.sealAll(tenantId, seven());
  await rotateSigningKey(first, callerOf(tenantId), 'checkpoint');
  await first.ledger.sealAll(tenantId, seven());
  await other.ledger.sealAll(tenantId, seven());
  expect(await verifyChain(other, tenantId)).toMatchObject({ ok: true });
});
