import { describe, expect, it } from 'vitest';
import { acceptLoss } from '../../../../control-plane/evidence/accept-loss.ts';
import { readVerification } from '../../../../control-plane/ledger/verification/verification-state.ts';
import { verifyChain } from '../../../../control-plane/ledger/verification/verify-chain.ts';
import type { Caller } from '../../../../control-plane/platform/access/caller.ts';
import { until } from '../../../support/base/until.ts';
import { oneDatabase } from '../../../support/control-plane/one-database.ts';
import { eventsOf, type TestServices } from '../../../support/control-plane/services.ts';
import { type Forger, forger } from '../../../support/ledger/forged-ledger.ts';
import { anEvent } from '../../../support/ledger/ledger.ts';

const database = oneDatabase();
const { begin, endAll } = database;
let tenants = 0;

const three = () => Array.from({ length: 3 }, () => anEvent());

interface Stage {
  readonly tenantId: string;
  readonly services: TestServices;
  readonly forge: Forger;
  readonly restore: () => Promise<void>;
}

/** Seals six events in a running process; `restore` returns the database to its state after three events. */
async function aLedger(): Promise<Stage> {
  const tenantId = `tenant_${++tenants}`;
  const services = await begin();
  await services.ledger.sealAll(tenantId, three());
  const forge = forger(database.url, services.pool, tenantId);
  const restore = await forge.backup();
  await services.ledger.sealAll(tenantId, three());
  return { tenantId, services, forge, restore };
}

const callerOf = (tenantId: string): Caller => ({
  tenantId,
  keyId: 'key_test',
  kind: 'key',
  principal: 'ada',
  role: 'owner',
  scope: 'tenant',
  permissions: new Set(),
  address: '127.0.0.1',
});

async function refused({ services, tenantId }: Stage, by = services): Promise<void> {
  const [outcome] = await by.ledger.sealKept(tenantId, [anEvent()]);
  expect(outcome).toMatchObject({ reason: { cause: { code: 'evidence.rolled_back' } } });
}

const alarms = async ({ services, tenantId }: Stage) =>
  (await eventsOf(services, tenantId)).filter(({ type }) => type === 'evidence.rolled_back');
const told = (stage: Stage) =>
  until(async () => (await alarms(stage)).length > 0, { what: 'the alarm is kept' });
const sealedCount = async ({ services, tenantId }: Stage) =>
  services.db.evidenceRow.count({ where: { tenantId } });

describe('a rollback of the database while a control plane runs', () => {
  it('raises one alarm and stops sealing until an operator accepts the loss', async () => {
    const stage = await aLedger();
    const { services, tenantId } = stage;
    await stage.restore();
    await refused(stage);
    await told(stage);
    await refused(stage);
    const waiting = anEvent();
    await expect(services.ledger.seal(tenantId, waiting)).rejects.toMatchObject({
      code: 'evidence.seal_failed',
    });
    await services.ledger.retry(tenantId);
    expect(await sealedCount(stage)).toBe(3);
    const problem = { kind: 'rolled_back', position: 4 };
    expect(await alarms(stage)).toMatchObject([
      { data: { acknowledged_position: 6, ledger_position: 3, problem } },
    ]);
    expect(await readVerification(services, tenantId)).toMatchObject({ lostPosition: 6 });
    // A position below the last acknowledged one is not sufficient.
    const tooLittle = { position: 5, reason: 'a restore' };
    await expect(acceptLoss(services, callerOf(tenantId), tooLittle)).rejects.toMatchObject({
      code: 'evidence.seal_failed',
    });
    await refused(stage);
    await acceptLoss(services, callerOf(tenantId), { position: 6, reason: 'a restore' });
    await services.ledger.seal(tenantId, anEvent());
    await services.ledger.retry(tenantId);
    const ids = (await eventsOf(services, tenantId)).map(({ id }) => id);
    expect(ids).toContain(waiting.id);
    expect(await services.db.eventOutbox.count({ where: { tenantId } })).toBe(0);
    expect(await alarms(stage)).toHaveLength(1);
    expect(await verifyChain(services, tenantId)).toMatchObject({ ok: true });
  });

  it('no longer stops sealing once the lost rows are restored', async () => {
    const stage = await aLedger();
    const forward = await stage.forge.backup();
    await stage.restore();
    await refused(stage);
    await told(stage);
    await forward();
    await stage.services.ledger.seal(stage.tenantId, anEvent());
    expect(await alarms(stage)).toHaveLength(1);
    expect(await verifyChain(stage.services, stage.tenantId)).toMatchObject({ ok: true });
  });

  it('is detected if another process has appended beyond the lost head', async () => {
    const stage = await aLedger();
    await stage.restore();
    const other = await begin();
    for (let n = 0; n < 3; n++) await other.ledger.sealAll(stage.tenantId, three());
    await refused(stage);
    await told(stage);
    const problem = { kind: 'rewritten' };
    expect(await alarms(stage)).toMatchObject([{ data: { acknowledged_position: 6, problem } }]);
  });

  it('is detected if another process has appended exactly up to the lost head', async () => {
    const stage = await aLedger();
    await stage.restore();
    const other = await begin();
    await other.ledger.sealAll(stage.tenantId, three());
    await refused(stage);
    expect(await sealedCount(stage)).toBe(6);
  });

  it('is detected if the whole ledger is missing', async () => {
    const stage = await aLedger();
    const own = `WHERE tenant_id = '${stage.tenantId}'`;
    const tables = ['evidence_row', 'evidence_head', 'evidence_chain', 'evidence_batch'];
    await stage.forge.run(...tables.map((table) => `DELETE FROM ${table} ${own}`));
    await refused(stage);
    expect(await sealedCount(stage)).toBe(0);
  });

  it('is not detected by a newly started process, which continues to seal', async () => {
    const stage = await aLedger();
    await endAll();
    await stage.restore();
    const services = await begin();
    await services.ledger.seal(stage.tenantId, anEvent());
    expect(await alarms({ ...stage, services })).toEqual([]);
  });

  it('is not reported by mistake if two processes seal concurrently with many conflicts', async () => {
    const tenantId = `tenant_${++tenants}`;
    const [one, two] = [await begin(), await begin()];
    for (let n = 0; n < 5; n++) {
      await Promise.all([one, two].map(({ ledger }) => ledger.sealAll(tenantId, three())));
    }
    const events = await eventsOf(one, tenantId);
    expect(events).toHaveLength(30);
    expect(events.filter(({ type }) => type !== 'decision')).toEqual([]);
  });
});

describe('appending to a chain', () => {
  const fake = `sha256:${'a'.repeat(64)}`;

  it.each([
    ['a different hash', `UPDATE evidence_chain SET event_hash = '${fake}'`],
    ['a larger sequence number', 'UPDATE evidence_chain SET seq = seq + 1'],
    ['a smaller sequence number', 'UPDATE evidence_chain SET seq = seq - 1'],
    ['no row', 'DELETE FROM evidence_chain'],
  ])('stops if the stored head of the chain was altered (%s)', async (_name, change) => {
    const { tenantId, forge } = await aLedger();
    await endAll();
    const own = `WHERE tenant_id = '${tenantId}' AND chain_id = 'agent:7'`;
    await forge.run(
      `CREATE TABLE IF NOT EXISTS kept_chain AS SELECT * FROM evidence_chain ${own}`,
      `${change} ${own}`,
    );
    const after = await begin();
    const outcome = await after.ledger.sealKept(tenantId, [anEvent()]);
    expect(outcome).toMatchObject([{ reason: { cause: { code: 'evidence.fork' } } }]);
    expect(await after.db.evidenceRow.count({ where: { tenantId } })).toBe(6);
    const type = 'evidence.fork';
    await until(
      async () => (await eventsOf(after, tenantId)).some((event) => event.type === type),
      { what: 'the incident is kept' },
    );
    // After the repair, appending continues.
    await forge.run(
      `DELETE FROM evidence_chain ${own}`,
      'INSERT INTO evidence_chain SELECT * FROM kept_chain',
      'DROP TABLE kept_chain',
    );
    await after.ledger.retry(tenantId);
    await after.ledger.seal(tenantId, anEvent());
    expect(await verifyChain(after, tenantId)).toMatchObject({ ok: true });
  });

  it('stops if the stored head of the chain was altered to match a forged row after the real head', async () => {
    const { tenantId, forge } = await aLedger();
    await endAll();
    const own = `WHERE tenant_id = '${tenantId}'`;
    await forge.run(
      `INSERT INTO evidence_row SELECT tenant_id, 7, chain_id, seq + 1, event_hash, '${fake}', canonical,
         'ev_forged', type, source, agent_id, tool, decision, reason_code, occurred_at, sealed_at
         FROM evidence_row ${own} AND position = 6`,
      `UPDATE evidence_chain SET seq = seq + 1, event_hash = '${fake}' ${own}`,
    );
    const after = await begin();
    const outcome = await after.ledger.sealKept(tenantId, [anEvent()]);
    expect(outcome).toMatchObject([{ reason: { cause: { code: 'evidence.fork' } } }]);
  });
});
