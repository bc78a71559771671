import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { evidenceRoutes } from '../../../control-plane/evidence/routes.ts';
import { storeSalts } from '../../../control-plane/ledger/privacy/store-salts.ts';
import { verifyStored } from '../../../control-plane/ledger/verification/verify-chain.ts';
import { privacyRoutes } from '../../../control-plane/privacy/routes.ts';
import { tenantRoutes } from '../../../control-plane/tenants/routes.ts';
import { userRoutes } from '../../../control-plane/users/routes.ts';
import { issueAgentPassport } from '../../../shared/contract/agent-passports.ts';
import type { Client } from '../../../shared/contract/base/client.ts';
import {
  eraseEventArguments,
  erasePersonalData,
  getEventArguments,
} from '../../../shared/contract/evidence/privacy.ts';
import { changeTenantSettings, getTenantSettings } from '../../../shared/contract/tenants.ts';
import { getUser, putUser } from '../../../shared/contract/users.ts';
import type { EvidenceEvent } from '../../../shared/ledger/event.ts';
import { saltedDigest } from '../../../shared/ledger/privacy/arguments.ts';
import { startApi, type TestApi } from '../../support/control-plane/api.ts';
import { enrolledSidecar } from '../../support/control-plane/enrolled-sidecar.ts';
import { refusalOf, roomyLimits } from '../../support/control-plane/gateway.ts';
import { preflightStage } from '../actions/preflight-stage.ts';

let stage: Awaited<ReturnType<typeof preflightStage>>;
let api: TestApi;
let owner: Client;
beforeAll(async () => {
  stage = await preflightStage();
  const { services } = stage.gateway;
  const routes = [
    ...privacyRoutes(services),
    ...tenantRoutes(services),
    ...evidenceRoutes(services),
    ...userRoutes(services),
  ];
  api = await startApi(routes, services, { limits: roomyLimits });
  owner = await api.client(await api.key());
}, 60_000);
afterAll(async () => {
  await api?.close();
  await stage?.gateway.close();
});

const settings = (evidence_arguments: 'digest' | 'redacted', sensitive_fields: string[] = []) =>
  owner.call(changeTenantSettings, { body: { evidence_arguments, sensitive_fields } });
const kept = (id: string) => owner.call(getEventArguments, { params: { id } });
const erase = (id: string) => owner.call(eraseEventArguments, { params: { id } });
const eraseAll = (body: object) => owner.call(erasePersonalData, { body: body as never });
const decided = async (more: object = {}) => String((await stage.ask(more)).evidence_event_id);

async function saltOf(eventId: string, tenantId = 'default') {
  const { db, vault } = stage.gateway.services;
  const where = { tenantId_eventId: { tenantId, eventId } };
  const row = await db.evidenceSalt.findUniqueOrThrow({ where });
  const open = () =>
    Buffer.from(
      vault
        .open(row.sealed, { tenantId, purpose: 'evidence_salt', id: eventId, version: 1 })
        .toString('utf8'),
      'base64',
    );
  return { row, open };
}

async function erasures(): Promise<readonly EvidenceEvent[]> {
  const rows = await stage.gateway.services.db.evidenceRow.findMany({
    where: { type: 'privacy.erased' },
    orderBy: { position: 'asc' },
  });
  return rows.map(({ canonical }) => JSON.parse(canonical) as EvidenceEvent);
}

const verified = async () => {
  const report = await verifyStored(stage.gateway.services, 'default');
  expect(report.problems).toEqual([]);
  return report;
};

describe('the stored form of arguments', () => {
  it('is a digest and a shape by default', async () => {
    expect(await owner.call(getTenantSettings)).toMatchObject({
      evidence_arguments: 'digest',
      sensitive_fields: [],
    });
    const id = await decided({ args: { amount: 5 } });
    expect(await refusalOf(kept(id))).toMatchObject({ code: 'evidence.arguments_not_kept' });
    expect((await stage.sealed(id)).event.data).not.toHaveProperty('args_kept_digest');
  });

  it('contains redacted values, encrypted and outside the ledger, if the tenant enables the storage of values', async () => {
    await settings('redacted', ['memo']);
    const args = { amount: 5, memo: 'divorce', to: 'dana@customer.example', note: 'Quarterly' };
    const id = await decided({ args });
    await settings('digest');
    const { event, row } = await stage.sealed(id);
    for (const word of ['divorce', 'dana@', 'Quarterly']) expect(row.canonical).not.toContain(word);
    const { row: salt } = await saltOf(id);
    for (const word of ['divorce', 'dana@', 'Quarterly']) {
      expect(salt.arguments).not.toContain(word);
    }
    expect(event.data.args_kept_digest).toMatch(/^hmac-sha256:/);
    expect(await kept(id)).toEqual({
      event_id: id,
      arguments: { amount: 5, memo: '[redacted]', to: '[redacted:email]', note: 'Quarterly' },
      proven: true,
    });
  });

  it('is shown as unproven if it does not match the sealed digest', async () => {
    await settings('redacted');
    const [one, two] = [await decided({ args: { n: 1 } }), await decided({ args: { n: 2 } })];
    await settings('digest');
    const { db, vault } = stage.gateway.services;
    const forged = vault.seal(JSON.stringify({ n: 3 }), {
      tenantId: 'default',
      purpose: 'evidence_arguments',
      id: one,
      version: 1,
    });
    const where = (eventId: string) => ({ tenantId_eventId: { tenantId: 'default', eventId } });
    await db.evidenceSalt.update({ where: where(one), data: { arguments: forged } });
    expect(await kept(one)).toMatchObject({ proven: false });
    // A value that was sealed for one event cannot be decrypted for another event.
    const { row } = await saltOf(two);
    await db.evidenceSalt.update({ where: where(one), data: { arguments: row.arguments } });
    expect(await refusalOf(kept(one))).toMatchObject({ code: 'credential.unreadable' });
  });

  it('is invisible to other tenants, and each tenant selects its own form', async () => {
    await settings('redacted');
    const id = await decided();
    await settings('digest');
    const other = await api.client(await api.key({ tenantId: 'other' }));
    const params = { id };
    expect(await refusalOf(other.call(getEventArguments, { params }))).toMatchObject({
      code: 'evidence.event_not_found',
    });
    expect(await refusalOf(other.call(eraseEventArguments, { params }))).toMatchObject({
      code: 'evidence.event_not_found',
    });
    expect(await kept(id)).toMatchObject({ proven: true });
    expect(await other.call(getTenantSettings)).toMatchObject({ evidence_arguments: 'digest' });
  });

  it('is a digest and a shape if the setting cannot be read', async () => {
    await settings('redacted');
    const { pool, clock } = stage.gateway.services;
    clock.advance(1_000);
    await pool.query('alter table evidence_setting rename to away');
    const id = await decided().finally(() =>
      pool.query('alter table away rename to evidence_setting'),
    );
    await settings('digest');
    expect(await refusalOf(kept(id))).toMatchObject({ code: 'evidence.arguments_not_kept' });
  });
});

describe('erasing the arguments of a call', () => {
  it('deletes the salt, so that nobody can confirm argument values, and the ledger still verifies', async () => {
    await settings('redacted');
    const args = { iban: 'x', amount: 5 };
    const id = await decided({ args });
    await settings('digest');
    const { event, row } = await stage.sealed(id);
    const before = await saltOf(id);
    // The salt and the digest together prove the arguments.
    expect(saltedDigest(before.open(), args)).toBe(event.data.args_digest);
    await verified();
    await erase(id);
    const { row: salt, open } = await saltOf(id);
    expect(salt).toMatchObject({ sealed: '', arguments: null });
    expect(open).toThrow();
    const dump = await everything();
    for (const gone of [before.row.sealed, before.row.arguments ?? '']) {
      expect(dump).not.toContain(JSON.parse(gone).ct);
    }
    expect(await refusalOf(kept(id))).toMatchObject({
      code: 'evidence.arguments_erased',
      kind: { status: 410 },
    });
    expect((await stage.sealed(id)).row.canonical).toBe(row.canonical);
    await verified();
    expect((await erasures()).at(-1)?.data).toMatchObject({ event: id, events: 1 });
  });

  it('changes nothing when it is repeated, and returns the time of the first erasure', async () => {
    const id = await decided();
    const first = await erase(id);
    const count = (await erasures()).length;
    stage.gateway.services.clock.advance(5_000);
    expect(await erase(id)).toEqual(first);
    expect(await erasures()).toHaveLength(count);
  });

  it('remains effective when a sidecar uploads the same record again', async () => {
    const { gateway, agentId } = stage;
    const sidecar = await enrolledSidecar(gateway, agentId);
    const record = { ...sidecar.record({}, 'c2FsdHNhbHRzYWx0c2FsdA=='), args: { n: 1 } };
    const { jws } = sidecar.segment([record]);
    await sidecar.upload(jws, [record]);
    const key = `sidecar:${sidecar.id}/${record.event.id}`;
    expect((await saltOf(key)).row.arguments).not.toBeNull();
    await erase(record.event.id);
    await sidecar.upload(jws, [record]);
    expect((await saltOf(key)).row).toMatchObject({ sealed: '', arguments: null });
    const own = JSON.parse((await stage.sealed(await decided())).row.canonical) as EvidenceEvent;
    await erase(own.id);
    await storeSalts(gateway.services, 'default', [{ event: own, salt: 'c2FsdA==' }]);
    expect((await saltOf(own.id)).row.sealed).toBe('');
  });

  it('is refused for an event without stored arguments, and for an unknown event', async () => {
    const [erasure] = await erasures();
    expect(await refusalOf(erase(erasure?.id ?? ''))).toMatchObject({
      code: 'evidence.arguments_not_kept',
    });
    expect(await refusalOf(erase('ev_none'))).toMatchObject({ code: 'evidence.event_not_found' });
  });

  it('cannot be undone in the database, because the row of an erased salt accepts no new value', async () => {
    const id = await decided();
    await erase(id);
    const { pool } = stage.gateway.services;
    const sql = "update evidence_salt set sealed = 'x' where event_id = $1";
    await expect(pool.query(sql, [id])).rejects.toThrow('evidence_salt_erased_check');
  });
});

describe('erasing the arguments of all calls', () => {
  it('of one user includes calls with the user’s passports, and excludes other users', async () => {
    const [mine, yours] = [
      await decided({ user_id: 'user-gone' }),
      await decided({ user_id: 'user-stays' }),
    ];
    const sidecar = await enrolledSidecar(stage.gateway, stage.agentId);
    const { claims } = await stage.gateway.owner.call(issueAgentPassport, {
      body: {
        agent_id: Number(stage.agentId),
        requested_tools: ['**'],
        user_id: 'user-gone',
      },
    });
    const record = sidecar.record({}, 'c2FsdHNhbHRzYWx0c2FsdA==');
    const { event } = record;
    const acting = {
      ...record,
      event: {
        ...event,
        data: { ...event.data, acted_for: 'user-gone', passport_jti: claims.jti },
      },
    };
    await sidecar.upload(sidecar.segment([acting]).jws, [acting]);
    expect(await eraseAll({ user_id: 'user-gone', reason: 'asked for' })).toMatchObject({
      events: 2,
      complete: true,
    });
    expect((await saltOf(mine)).row.sealed).toBe('');
    expect((await saltOf(`sidecar:${sidecar.id}/${event.id}`)).row.sealed).toBe('');
    expect((await saltOf(yours)).row.sealed).not.toBe('');
    const told = (await erasures()).at(-1);
    expect(told?.data).toMatchObject({ about: 'user', events: 2, reason: 'asked for' });
    expect(JSON.stringify(told)).not.toContain('user-gone');
    await verified();
  });

  it('of one user also erases the user’s address, and the arguments that closed approvals showed to deciders', async () => {
    const { db, clock } = stage.gateway.services;
    await owner.call(putUser, {
      params: { id: 'shown' },
      body: { email: 'shown@customer.example', role: 'lead' },
    });
    const open = await stage.ask({ tool: 'refund', user_id: 'shown', resource: 'r:1' });
    const id = Number(open.approval_request_id);
    expect(await eraseAll({ user_id: 'shown' })).toMatchObject({ approvals: 0 });
    const find = () => db.approval.findUniqueOrThrow({ where: { id } });
    expect((await find()).proposedArgs).not.toBeNull();
    clock.advance(3 * 3_600_000);
    await stage.gateway.post('/v1/approvals/expire', undefined);
    expect(await eraseAll({ user_id: 'shown' })).toMatchObject({ approvals: 1 });
    expect((await find()).proposedArgs).toBeNull();
    expect(await owner.call(getUser, { params: { id: 'shown' } })).toMatchObject({
      email: null,
      role: 'lead',
    });
  });

  it('of one agent includes all users of the agent', async () => {
    const agent_id = await stage.gateway.agent('erased');
    const ids = [
      await decided({ agent_id, user_id: 'a' }),
      await decided({ agent_id, user_id: 'b' }),
      await decided({ user_id: 'a' }),
    ];
    expect(await eraseAll({ agent_id })).toMatchObject({ events: 2, complete: true });
    const sealed = await Promise.all(ids.map(async (id) => (await saltOf(id)).row.sealed !== ''));
    expect(sealed).toEqual([false, false, true]);
  });

  it('requires either a user or an agent, and finds nothing of another tenant', async () => {
    for (const body of [{}, { user_id: 'a', agent_id: '1' }]) {
      expect(await refusalOf(eraseAll(body))).toMatchObject({ code: 'args.schema_invalid' });
    }
    const id = await decided({ user_id: 'here' });
    const other = await api.client(await api.key({ tenantId: 'other' }));
    const body = { user_id: 'here' };
    expect(await other.call(erasePersonalData, { body })).toMatchObject({ events: 0 });
    expect((await saltOf(id)).row.sealed).not.toBe('');
  });

  it('erases each call’s arguments once if two requests run concurrently', async () => {
    const ids = await Promise.all(
      Array.from({ length: 6 }, (_, n) => decided({ user_id: 'raced', args: { n } })),
    );
    const results = await Promise.all([1, 2, 3].map(() => eraseAll({ user_id: 'raced' })));
    expect(results.reduce((sum, { events }) => sum + events, 0)).toBe(ids.length);
    await verified();
  });
});

/** Returns the whole content of the event tables as text. */
async function everything(): Promise<string> {
  const { pool } = stage.gateway.services;
  const tables = ['evidence_salt', 'evidence_row', 'event_outbox', 'evidence_batch'];
  const texts = await Promise.all(
    tables.map(async (table) => JSON.stringify((await pool.query(`table ${table}`)).rows)),
  );
  return texts.join('\n');
}
