import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { storeCredential } from '../../../shared/contract/credentials.ts';
import {
  type DatabaseFaults,
  databaseFaults,
} from '../../support/control-plane/database-faults.ts';
import {
  type EnrolledSidecar,
  enrolledSidecar,
} from '../../support/control-plane/enrolled-sidecar.ts';
import { type Gateway, refusalOf, startGateway } from '../../support/control-plane/gateway.ts';

let gateway: Gateway;
let faults: DatabaseFaults;
let sidecar: EnrolledSidecar;
let made = 0;
beforeAll(async () => {
  gateway = await startGateway();
  faults = databaseFaults(gateway.services);
  await store('payments');
});
afterAll(() => gateway.close());
beforeEach(async () => {
  sidecar = await enrolledSidecar(gateway, await gateway.agent(`payer-${++made}`, ['pay.*']));
});
afterEach(() => faults.mend());

const store = (name: string, secret = 'sk_live_1') =>
  gateway.owner.call(storeCredential, {
    body: {
      name,
      secret,
      inject: { in: 'bearer' },
      bind: { tools: ['pay.*'], hosts: ['api.example'] },
    },
  });

async function delivered() {
  const rows = await gateway.services.db.evidenceRow.findMany({
    where: { chainId: `sidecar:${sidecar.id}`, type: 'credential.delivered' },
    orderBy: { position: 'asc' },
  });
  return rows.map(({ canonical }) => JSON.parse(canonical) as Record<string, unknown>);
}

it('each delivery of a credential version to a sidecar is recorded once, with ids only', async () => {
  const { id, version } = await store('payments');
  await sidecar.controlPlane.credentials();
  await sidecar.controlPlane.credentials();
  const events = await delivered();
  expect(events).toEqual([
    expect.objectContaining({
      agent_id: sidecar.agentId,
      user_id: 'user-1',
      source: 'control-plane',
      data: { credential_id: id, sidecar_id: sidecar.id, version },
    }),
  ]);
  expect(JSON.stringify(events)).not.toMatch(/sk_live|api\.example/);
});

it('the delivery of a new version is recorded, and so is a delivery to a second sidecar of the agent', async () => {
  await sidecar.controlPlane.credentials();
  const { version } = await store('payments', 'sk_live_2');
  await sidecar.controlPlane.credentials();
  const versions = (await delivered()).map(({ data }) => (data as { version: number }).version);
  expect(versions).toEqual([version - 1, version]);
  sidecar = await enrolledSidecar(gateway, sidecar.agentId);
  await sidecar.controlPlane.credentials();
  expect(await delivered()).toHaveLength(1);
});

it('many concurrent requests of a sidecar are recorded as one delivery', async () => {
  const answers = await Promise.all(
    Array.from({ length: 8 }, () => sidecar.controlPlane.credentials()),
  );
  expect(answers.every(({ credentials }) => credentials.length === 1)).toBe(true);
  expect(await delivered()).toHaveLength(1);
});

it('no delivery is recorded for an agent without credentials', async () => {
  sidecar = await enrolledSidecar(gateway, await gateway.agent(`reader-${made}`, ['notes.*']));
  expect((await sidecar.controlPlane.credentials()).credentials).toEqual([]);
  expect(await delivered()).toEqual([]);
});

it.each(['evidence_row', 'event_outbox'])(
  'a credential is not delivered while the delivery cannot be recorded in the table %s',
  async (table) => {
    await faults.unwritable(table);
    const error = await refusalOf(sidecar.controlPlane.credentials());
    expect(error.code).toBe('evidence.seal_failed');
    expect(error.message).toContain(sidecar.id);
    expect(await delivered()).toEqual([]);
    await faults.mend();
    expect((await sidecar.controlPlane.credentials()).credentials).toHaveLength(1);
    expect(await delivered()).toHaveLength(1);
  },
);

it('a credential that a sidecar already received is delivered again while the ledger is not writable', async () => {
  await sidecar.controlPlane.credentials();
  await faults.unwritable('evidence_row');
  expect((await sidecar.controlPlane.credentials()).credentials).toHaveLength(1);
});
