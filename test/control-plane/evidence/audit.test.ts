import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { evidenceRoutes } from '../../../control-plane/evidence/routes.ts';
import { exportAudit, listAudit } from '../../../shared/contract/evidence/audit.ts';
import type { SealedEventRecord } from '../../../shared/contract/evidence/evidence.ts';
import { canonicalJson } from '../../../shared/crypto/jcs.ts';
import { signObject } from '../../../shared/crypto/signed-object.ts';
import { generateSigningKey, verificationKeys } from '../../../shared/crypto/signing-key.ts';
import { signTrail, verifyTrail } from '../../../shared/ledger/audit/statement.ts';
import type { EvidenceEvent } from '../../../shared/ledger/event.ts';
import { startApi, type TestApi } from '../../support/control-plane/api.ts';
import { roomyLimits } from '../../support/control-plane/gateway.ts';
import { type TestServices, testServices } from '../../support/control-plane/services.ts';
import { anEvent, tamper } from '../../support/ledger/ledger.ts';
import { freshDatabase } from '../../support/programs/postgres.ts';

let database: Awaited<ReturnType<typeof freshDatabase>>;
let services: TestServices;
let api: TestApi;
let tenants = 0;

beforeAll(async () => {
  database = await freshDatabase();
  services = await testServices({ databaseUrl: database.url });
  api = await startApi(evidenceRoutes(services), services, { limits: roomyLimits });
});
afterAll(async () => {
  await api.close();
  await services.close();
  await database.drop();
});

const traffic = ['decision', 'execution.result', 'passport.issued', 'passport.renewed', 'custom.x'];
const change = (fields: Partial<EvidenceEvent> = {}): EvidenceEvent =>
  anEvent({
    type: 'policy.published',
    chain_id: 'policies:default',
    agent_id: undefined,
    tool: undefined,
    decision: undefined,
    data: { by: 'dana' },
    ...fields,
  });

async function aLedger(events: readonly EvidenceEvent[]) {
  const tenantId = `audit_${++tenants}`;
  await services.ledger.sealAll(tenantId, events);
  const key = await api.key({ tenantId, role: 'auditor' });
  const get = async (path: string, query: Readonly<Record<string, string>> = {}) =>
    api.send('GET', `/api/v1/audit${path}?${new URLSearchParams(query)}`, { key });
  const list = async (query: Readonly<Record<string, string>> = {}) => {
    const { status, body, text } = await get('', query);
    expect(status, text).toBe(200);
    return listAudit.success.schema?.parse(body) ?? expect.fail('no schema');
  };
  const keys = async () =>
    verificationKeys(await services.signingKeys.publicKeys(tenantId, 'report'));
  const damage = (set: string, where: string) =>
    tamper(
      database.url,
      `UPDATE evidence_row SET ${set} WHERE tenant_id = '${tenantId}' AND ${where}`,
    );
  return { tenantId, get, list, keys, damage };
}

const typesOf = (events: readonly SealedEventRecord[]) => events.map(({ type }) => type);

describe('the audit trail', () => {
  it('contains every event except the traffic of agents, in order, with any page size', async () => {
    const types = ['key.created', ...traffic, 'tool.drifted', 'chain_verification_failed'];
    const events = Array.from({ length: 90 }, (_, index) =>
      anEvent({ type: types[index % types.length] ?? '', chain_id: `c:${index % 4}` }),
    );
    const { list } = await aLedger(events);
    const wanted = events.filter(({ type }) => !traffic.includes(type)).map(({ id }) => id);
    expect(wanted.length).toBeGreaterThan(20);
    for (const limit of ['1', '7', '1000']) {
      const seen: string[] = [];
      for (let cursor: string | null | undefined; cursor !== null; ) {
        const page = await list(cursor === undefined ? { limit } : { limit, cursor });
        seen.push(...page.events.map(({ id }) => id));
        cursor = page.next_cursor;
      }
      expect(seen).toEqual(wanted);
    }
  });

  it('accepts the same filters as the list of events', async () => {
    const { list } = await aLedger([
      change(),
      change({ type: 'key.created', chain_id: 'keys:api' }),
      change({ type: 'approval.decided', decision: 'approve', agent_id: '7', tool: 't' }),
      change({ occurred_at: '2020-01-01T00:00:00.000Z', reason_code: 'r' }),
      anEvent({ decision: 'approve' }),
    ]);
    const at = async (query: Record<string, string>) =>
      (await list(query)).events.map(({ position }) => position);
    expect(await at({ chain_id: 'keys:api' })).toEqual([2]);
    expect(await at({ type: 'policy.published' })).toEqual([1, 4]);
    expect(await at({ type: 'decision' })).toEqual([]);
    expect(await at({ decision: 'approve', agent_id: '7', tool: 't' })).toEqual([3]);
    expect(await at({ to: '2020-01-01T00:00:00Z' })).toEqual([4]);
    expect(await at({ from: '2020-01-01T00:00:00.001Z' })).toEqual([1, 2, 3]);
    expect(await at({ reason_code: 'r' })).toEqual([4]);
  });

  it('reports the length of each chain that occurs on the page, and that these chains are intact', async () => {
    const { list } = await aLedger([
      ...Array.from({ length: 12 }, () => change()),
      change({ chain_id: 'keys:api' }),
      ...Array.from({ length: 5 }, () => anEvent()),
      change({ chain_id: 'agent:7', type: 'agent.disabled' }),
      anEvent({ chain_id: 'agent:8' }),
    ]);
    expect((await list()).chains).toEqual([
      { chain_id: 'agent:7', length: 6, verified: 6, ok: true },
      { chain_id: 'keys:api', length: 1, verified: 1, ok: true },
      { chain_id: 'policies:default', length: 12, verified: 12, ok: true },
    ]);
    expect((await list({ chain_id: 'keys:api' })).chains).toHaveLength(1);
    expect((await list({ type: 'nothing' })).chains).toEqual([]);
  });

  it.each([
    ['the text of an event', `canonical = replace(canonical, 'dana', 'emil')`, 'position = 5'],
    ['a hash', `event_hash = 'sha256:${'0'.repeat(64)}'`, 'position = 5'],
    ['a link', `prev_hash = 'sha256:${'0'.repeat(64)}'`, 'position = 5'],
    ['the chain of a row', `chain_id = 'keys:api', seq = 2`, 'position = 9'],
    [
      'the type of an event, to a type of agent traffic',
      `type = 'decision', canonical = '{}'`,
      'position = 5',
    ],
    ['a text, to invalid JSON', `canonical = '{'`, 'position = 5'],
  ])(
    'reports a chain that differs from the sealed chain after a change of %s',
    async (what, set, where) => {
      const { list, damage } = await aLedger([
        ...Array.from({ length: 9 }, () => change()),
        change({ chain_id: 'keys:api' }),
      ]);
      expect((await list()).chains.map(({ ok }) => ok)).toEqual([true, true]);
      await damage(set, where);
      // This query returns only undamaged events of the chain; the chain must be reported nevertheless.
      const query = what === 'a text, to invalid JSON' ? { cursor: '' } : {};
      const { chains } = await list(
        'cursor' in query
          ? { from: new Date(Date.now() - 1_000_000).toISOString(), limit: '1' }
          : {},
      );
      expect(chains.find(({ chain_id }) => chain_id === 'policies:default')).toMatchObject({
        ok: false,
      });
    },
  );

  it('detects a chain that lost its newest row, and a chain that lost a row in the middle', async () => {
    for (const position of [9, 4]) {
      const { list, tenantId } = await aLedger(Array.from({ length: 9 }, () => change()));
      const where = `tenant_id = '${tenantId}' AND position = ${position}`;
      await tamper(database.url, `DELETE FROM evidence_row WHERE ${where}`);
      expect((await list()).chains).toMatchObject([{ ok: false, length: 9 }]);
    }
  });

  it('verifies the newest 10,000 events of a chain and the events on the page; an export has at most 10,000 events', async () => {
    const { get, list, damage } = await aLedger(Array.from({ length: 10_005 }, () => change()));
    const chain = { chain_id: 'policies:default', length: 10_005, verified: 10_000, ok: true };
    expect((await list()).chains).toEqual([chain]);
    await damage(`canonical = replace(canonical, 'dana', 'emil')`, 'position = 3');
    expect((await list({ limit: '2' })).chains).toMatchObject([{ ok: true }]);
    expect((await list()).chains).toMatchObject([{ ok: false }]);
    const { status, body } = await get('/export');
    expect([status, body?.reason_code]).toEqual([400, 'evidence.export_too_large']);
    expect((await get('/export', { type: 'audit.exported' })).status).toBe(200);
  });

  it.each(['limit=0', 'cursor=x', 'from=yesterday', 'tool=', 'nobody=1'])(
    'refuses the query %s',
    async (query) => {
      const { get } = await aLedger([]);
      const { status } = await get('', Object.fromEntries(new URLSearchParams(query)));
      expect(status).toBe(400);
    },
  );
});

describe('an export of the audit trail', () => {
  const odd = '=cmd|\'/c calc\'!A1,"q"\n<b>*|';

  it.each(['json', 'csv', 'md'])(
    'in the format %s passes verification, and fails verification if one byte changes',
    async (format) => {
      const { get, keys } = await aLedger([
        change({ data: { by: odd } }),
        anEvent(),
        change({ chain_id: 'keys:api' }),
      ]);
      const answer = await get('/export', { format });
      expect(answer.status).toBe(200);
      expect(answer.headers.get('content-disposition')).toMatch(`.${format}"`);
      const file = Buffer.from(answer.text);
      const known = await keys();
      expect(verifyTrail(file, known)).toBeDefined();
      expect(
        verifyTrail(file, verificationKeys([generateSigningKey('ES256').publicJwk])),
      ).toBeUndefined();
      const sizes = [0, 1, file.length - 1];
      expect(sizes.filter((size) => verifyTrail(file.subarray(0, size), known))).toEqual([]);
      expect(verifyTrail(Buffer.concat([file, Buffer.from('\n')]), known)).toBeUndefined();
      const noticed = file.map((_, at) => {
        const changed = Buffer.from(file);
        changed[at] = (changed[at] ?? 0) ^ (1 << (at % 7));
        return Number(!verifyTrail(changed, known));
      });
      expect(noticed.indexOf(0)).toBe(-1);
    },
  );

  it('contains the events of the trail, the state of their chains, and the record of the export itself', async () => {
    const { get, list } = await aLedger([change(), anEvent(), change({ type: 'key.created' })]);
    const { body } = await get('/export', { type: 'key.created' });
    const parsed = exportAudit.success.schema?.parse(body) ?? expect.fail('no schema');
    expect(parsed).toMatchObject({ type: 'audit-trail', filters: { type: 'key.created' } });
    expect(parsed.events.map(({ position }) => position)).toEqual([3]);
    expect(parsed.signature.alg).toBe('ES256');
    const all = await get('/export');
    const { events } = exportAudit.success.schema?.parse(all.body) ?? expect.fail('no schema');
    expect(typesOf(events as never)).toEqual([
      'policy.published',
      'key.created',
      'audit.exported',
      'audit.exported',
    ]);
    const shown = (await list()).events.map(({ cursor: _cursor, ...event }) => event);
    expect(events).toEqual(shown);
    expect(shown[2]?.data).toEqual({
      by: 'auditor',
      filters: { type: 'key.created' },
      format: 'json',
    });
  });

  it('keeps text from agents within its CSV cell', async () => {
    const { get } = await aLedger([change({ data: { by: odd } })]);
    const csv = (await get('/export', { format: 'csv' })).text;
    expect(csv).toContain(`,"'=cmd|'/c calc'!A1,""q""\n<b>*|",`);
    const md = (await get('/export', { format: 'md' })).text;
    expect(md).toContain(String.raw`| =cmd\|'/c calc'\!A1,"q" &lt;b\>\*\| |`);
  });

  it('is refused and not recorded while no signing key is available', async () => {
    const { get, list, tenantId } = await aLedger([change()]);
    // The tenant's private key was encrypted with a master key that no longer exists.
    const lost = await testServices({ databaseUrl: database.url });
    await lost.signingKeys.active(tenantId, 'report');
    await lost.close();
    const { status, body } = await get('/export');
    expect([status, body?.reason_code]).toEqual([503, 'report.signing_unavailable']);
    expect((await list()).events).toHaveLength(1);
  });

  it('fails verification if it was signed with a key of another purpose or serialised differently', async () => {
    const key = generateSigningKey('ES256');
    const keys = verificationKeys([key.publicJwk]);
    const write = (value: object) => Buffer.from(`${canonicalJson(value)}\n`);
    const good = signTrail({ events: [], type: 'audit-trail' }, key);
    expect(verifyTrail(write(good), keys)).toBeDefined();
    expect(verifyTrail(Buffer.from(JSON.stringify(good, null, 1)), keys)).toBeUndefined();
    const other = { events: [], type: 'other' };
    expect(verifyTrail(write(signTrail(other, key)), keys)).toBeUndefined();
    const jws = { ...good, signature: signObject(other, 'audit-trail+jws', key) };
    expect(verifyTrail(write(jws), keys)).toBeUndefined();
    const { signature: _signature, ...bare } = good;
    const elsewhere = { ...bare, signature: signObject(bare, 'evidence-export+jws', key) };
    expect(verifyTrail(write(elsewhere), keys)).toBeUndefined();
    for (const file of ['', '{', '{}\n', '[]\n', '# sallyport-audit:e30\r\n', 'null'])
      expect(verifyTrail(Buffer.from(file), keys)).toBeUndefined();
  });
});
