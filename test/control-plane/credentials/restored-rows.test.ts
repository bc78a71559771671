import { Registry } from 'prom-client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { credentialForCall } from '../../../control-plane/credentials/held-credentials.ts';
import { removalOf } from '../../../control-plane/credentials/remove-credential.ts';
import { queryIn } from '../../../control-plane/integrity/active-versions.ts';
import { credentialStandings } from '../../../control-plane/integrity/current-credentials.ts';
import { sweepRows } from '../../../control-plane/integrity/sweep.ts';
import { newEvent } from '../../../control-plane/ledger/sealing/new-event.ts';
import { createRowGuard } from '../../../control-plane/platform/integrity/row-guard.ts';
import { createForgeryMeter } from '../../../control-plane/platform/telemetry/forgery-metrics.ts';
import { registerAgent } from '../../../shared/contract/agents.ts';
import {
  deleteCredential,
  listCredentials,
  storeCredential,
} from '../../../shared/contract/credentials.ts';
import { until } from '../../support/base/until.ts';
import {
  type EnrolledSidecar,
  enrolledSidecar,
} from '../../support/control-plane/enrolled-sidecar.ts';
import { refusalOf } from '../../support/control-plane/gateway.ts';
import { executeStage, secret } from '../actions/execute-stage.ts';
import { incidentsOf } from '../integrity/forgery-stage.ts';

let stage: Awaited<ReturnType<typeof executeStage>>;
let sidecar: EnrolledSidecar;
beforeAll(async () => {
  stage = await executeStage();
  sidecar = await enrolledSidecar(stage.gateway, stage.agentId);
});
afterAll(() => stage.close());

const tenantId = 'default';
const sql = (text: string) => stage.services.pool.query(text);
const store = (name: string, more: object = {}) =>
  stage.gateway.owner.call(storeCredential, {
    body: {
      name,
      secret: `sk_of_${name}_1`,
      inject: { in: 'bearer' },
      bind: { tools: ['pay'], hosts: [stage.host] },
      ...more,
    },
  });
const remove = (id: string) => stage.gateway.owner.call(deleteCredential, { params: { id } });
const listed = async () =>
  (await stage.gateway.owner.call(listCredentials)).credentials.map(({ name }) => name);
const delivered = async () =>
  (await sidecar.controlPlane.credentials()).credentials.map((one) => one.secret);
/** Returns the authorization header that the next execution sends to the upstream. */
async function sent() {
  const before = stage.upstream.seen.length;
  const { body } = await stage.send();
  const authorization = stage.upstream.seen[before]?.headers.authorization;
  return authorization ?? body?.reason_code;
}
const reported = (id: string) =>
  until(
    async () =>
      (await incidentsOf(stage.services, tenantId, { table: 'credential', id })).length > 0,
    { what: `${id} in the ledger` },
  );
const keep = (id: string) =>
  sql(`create table kept as select * from credential where id = '${id}'`);
const putBack = (id: string) =>
  sql(`delete from credential where id = '${id}';
       insert into credential select * from kept; drop table kept`);

describe('a removed credential whose row is restored directly in the database', () => {
  it('is not used, listed or delivered, and is reported; other credentials work', async () => {
    // Of several matching credentials, the first by name is used; this name comes first.
    const { id } = await store('a-removed');
    expect(await sent()).toBe('Bearer sk_of_a-removed_1');
    expect(await delivered()).toEqual(['sk_of_a-removed_1', secret]);
    await keep(id);
    await remove(id);
    expect(await sent()).toBe(`Bearer ${secret}`);
    await putBack(id);
    expect(await sent()).toBe(`Bearer ${secret}`);
    expect(await delivered()).toEqual([secret]);
    expect(await listed()).toEqual(['bank']);
    await reported(id);
    await remove(id);
    expect(await stage.services.db.credential.count({ where: { id } })).toBe(0);
  });

  it('is not used, even if its name was changed', async () => {
    const { id } = await store('a-named');
    await keep(id);
    await remove(id);
    await sql(`update kept set name = 'a-new-name'`);
    await putBack(id);
    expect(await sent()).toBe(`Bearer ${secret}`);
    await reported(id);
    await remove(id);
  });

  it('is found by the sweep even if no call uses it, and other calls continue', async () => {
    const { id } = await store('a-swept');
    await keep(id);
    await remove(id);
    await putBack(id);
    await sweepRows(stage.services);
    await reported(id);
    expect(await sent()).toBe(`Bearer ${secret}`);
    await remove(id);
  });

  it('is replaced by a new credential with a different id when a credential is stored under its name', async () => {
    const { id } = await store('a-again');
    await keep(id);
    await remove(id);
    await putBack(id);
    const again = await store('a-again', { secret: 'sk_again' });
    expect(again).toMatchObject({ version: 1 });
    expect(again.id).not.toBe(id);
    expect(await sent()).toBe('Bearer sk_again');
    await remove(again.id);
  });

  it('is counted in the metrics', async () => {
    const { services } = stage;
    const { id } = await store('a-counted');
    await keep(id);
    await remove(id);
    await putBack(id);
    const registry = new Registry();
    const guard = createRowGuard({ ...services, meter: createForgeryMeter(registry) });
    const counted = /sallyport_forged_rows_refused_total\{table="credential"\} (\d+)/;
    expect(counted.exec(await registry.metrics())?.[1]).toBe('0');
    await credentialForCall({ ...services, guard }, tenantId, { tool: 'pay', host: stage.host });
    expect(counted.exec(await registry.metrics())?.[1]).toBe('1');
    await remove(id);
  });
});

describe('an older version of a credential that is restored directly in the database', () => {
  it('is refused for every use until the credential is stored again', async () => {
    const { id } = await store('a-rotated');
    await keep(id);
    await store('a-rotated', { secret: 'sk_of_a-rotated_2' });
    expect(await sent()).toBe('Bearer sk_of_a-rotated_2');
    await putBack(id);
    expect(await sent()).toBe('integrity.forged_row');
    expect((await refusalOf(sidecar.controlPlane.credentials())).code).toBe('integrity.forged_row');
    expect(await listed()).toEqual(['bank']);
    await reported(id);
    const again = await store('a-rotated', { secret: 'sk_of_a-rotated_3' });
    expect(await sent()).toBe('Bearer sk_of_a-rotated_3');
    await remove(again.id);
  });

  it('is not used to decide which capabilities a developer may register', async () => {
    const { id } = await store('a-widened', { bind: { tools: ['none'], hosts: [stage.host] } });
    await keep(id);
    await store('a-widened', { bind: { tools: ['wide.*'], hosts: [stage.host] } });
    await putBack(id);
    const developer = await stage.gateway.as({ role: 'developer' });
    const body = { name: 'widened', capabilities: ['wide.pay'] };
    expect((await refusalOf(developer.call(registerAgent, { body }))).code).toBe(
      'integrity.forged_row',
    );
    await remove(id);
  });
});

it('a deleted credential row that is restored in the database is not used if another credential has since taken its name', async () => {
  const { id } = await store('a-deleted');
  await keep(id);
  await sql(`delete from credential where id = '${id}'`);
  const again = await store('a-deleted', { secret: 'sk_new' });
  expect(again.id).not.toBe(id);
  await sql(`delete from credential where id = '${again.id}'`);
  await putBack(id);
  expect(await sent()).toBe(`Bearer ${secret}`);
  await reported(id);
  await remove(id);
});

it('a credential that was renamed in the database is refused, because the name order decides which credential is used', async () => {
  const { id } = await store('z-last');
  await sql(`update credential set name = 'a-first' where id = '${id}'`);
  expect(await sent()).toBe('integrity.forged_row');
  await sql(`update credential set name = 'z-last' where id = '${id}'`);
  expect(await sent()).toBe(`Bearer ${secret}`);
  await remove(id);
});

it('the removal of a credential takes effect before its event is sealed; a forged removal has no effect', async () => {
  const { db, ledger, guard, vault, clock } = stage.services;
  const { id } = await store('a-waiting');
  const row = await db.credential.findUniqueOrThrow({ where: { id } });
  const standingIn = (fields: object) =>
    db.$transaction(async (tx) => {
      const event = newEvent(removalOf(row, 'owner'), clock);
      await ledger.record(tx, tenantId, event);
      await tx.eventOutbox.updateMany({ where: { eventId: event.id }, data: fields });
      const deps = { query: queryIn(tx), guard, vault };
      const standing = (await credentialStandings(deps, tenantId)).get(id);
      await tx.eventOutbox.deleteMany({ where: { eventId: event.id } });
      return standing;
    });
  expect(await standingIn({})).toMatchObject({ isRemoved: true, version: 1, name: 'a-waiting' });
  expect(await standingIn({ mac: 'a'.repeat(64) })).toMatchObject({ isRemoved: false });
  await remove(id);
});
