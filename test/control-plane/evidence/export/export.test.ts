import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { allRoutes } from '../../../../control-plane/routes.ts';
import type { EvidenceJwk } from '../../../../shared/contract/evidence/evidence-export.ts';
import { rotateSigningKey } from '../../../../shared/contract/keys.ts';
import { generateSigningKey } from '../../../../shared/crypto/signing-key.ts';
import { verifyExport } from '../../../../shared/ledger/bundle/verify.ts';
import { siemDialects } from '../../../../shared/ledger/siem/dialects.ts';
import { startApi, type TestApi } from '../../../support/control-plane/api.ts';
import {
  eventsOf,
  type TestServices,
  testServices,
} from '../../../support/control-plane/services.ts';
import { fileOf } from '../../../support/ledger/exported.ts';
import { anEvent, tamper } from '../../../support/ledger/ledger.ts';
import { freshDatabase } from '../../../support/programs/postgres.ts';

let database: Awaited<ReturnType<typeof freshDatabase>>;
let services: TestServices;
let api: TestApi;
let key: string;
const startMs = Date.parse('2026-11-01T00:00:00.000Z');
const timeOf = (n: number) => new Date(startMs + n * 60_000).toISOString();
beforeAll(async () => {
  database = await freshDatabase();
  services = await testServices({ databaseUrl: database.url });
  api = await startApi(allRoutes(services), services);
  key = await api.key({ role: 'auditor', principal: 'ada' });
  const events = Array.from({ length: 330 }, (_, n) =>
    anEvent({
      chain_id: `agent:${n % 7}`,
      agent_id: String(n % 7),
      tool: n % 5 === 0 ? 'pay' : 'mail',
      ...(n % 11 === 0 ? { decision: 'deny', reason_code: 'mail.forbidden' } : {}),
      occurred_at: timeOf(n),
    }),
  );
  await services.ledger.sealAll('default', events);
  await services.ledger.sealAll('other', events.slice(0, 3));
});
afterAll(async () => {
  await api?.close();
  await services?.close();
  await database?.drop();
});

const get = (path: string, as = key) => api.send('GET', `/api/v1/evidence/${path}`, { key: as });
const download = async (query = '') => {
  const answer = await get(`export${query}`);
  expect(answer.status, answer.text).toBe(200);
  return answer;
};
const jwksOf = async (as = key) =>
  ((await get('jwks', as)).body as unknown as { readonly keys: readonly EvidenceJwk[] }).keys;
const verified = async (text: string) => {
  const jwks = await jwksOf();
  const kids = jwks.filter(({ purpose }) => purpose === 'export').map(({ kid }) => kid);
  return verifyExport(fileOf(Buffer.from(text)), { jwks, thumbprints: new Set(kids) });
};
interface Bundle {
  readonly size: number;
  readonly events: readonly { readonly position: number; readonly proof?: readonly string[] }[];
}

describe('an export', () => {
  const whole: readonly (readonly [query: string, type: RegExp, name: RegExp])[] = [
    ['', /^application\/json; charset=utf-8$/, /^evidence-default-\d+\.json$/],
    ['?format=csv', /^text\/csv; charset=utf-8$/, /^evidence-default-\d+\.csv$/],
    ['?format=md', /^text\/markdown; charset=utf-8$/, /^evidence-default-\d+\.md$/],
    ...siemDialects.map((dialect) => {
      const name = new RegExp(`^evidence-default-\\d+\\.${dialect}\\.log$`);
      return [`?format=siem&dialect=${dialect}`, /^(application|text)\//, name] as const;
    }),
  ];
  it.each(whole)(
    'with the query "%s" contains the whole ledger at the time of the request, and verifies with the published keys',
    async (query, type, name) => {
      const { position } = await services.db.evidenceHead.findUniqueOrThrow({
        where: { tenantId: 'default' },
      });
      const { text, headers } = await download(query);
      expect(headers.get('content-type')).toMatch(type);
      expect(headers.get('cache-control')).toBe('no-store');
      const disposition = headers.get('content-disposition') ?? '';
      expect(/filename="(.*)"$/.exec(disposition)?.[1]).toMatch(name);
      const report = await verified(text);
      expect(report).toMatchObject({ ok: true, trusted: true, complete: true, tenant: 'default' });
      expect([report.events, report.checkpoint?.size]).toEqual([
        Number(position),
        Number(position),
      ]);
    },
  );

  it.each([
    'tool=pay',
    'chain_id=agent:3',
    'agent_id=3',
    'decision=deny',
    'reason_code=mail.forbidden',
    `from=${timeOf(200)}`,
    `to=${timeOf(20)}`,
    `from=${timeOf(20)}&to=${timeOf(250)}&tool=pay&agent_id=3`,
    'tool=nobody',
  ])(
    'with the filter %s contains the same events as the list with this filter, each with its proof',
    async (query) => {
      const listed = (await get(`events?${query}&limit=1000`)).body?.events as Bundle['events'];
      const { text } = await download(`?${query}`);
      const bundle = JSON.parse(text) as Bundle;
      const shown = listed.map(({ position }) => position).filter((at) => at <= bundle.size);
      expect(bundle.events.map(({ position }) => position)).toEqual(shown);
      expect(bundle.events.every(({ proof }) => Array.isArray(proof))).toBe(true);
      const report = await verified(text);
      expect(report).toMatchObject({ ok: true, trusted: true, complete: false });
    },
  );

  it('does not contain events that were sealed after the export began', async () => {
    const response = await fetch(`${api.origin}/api/v1/evidence/export`, {
      headers: { authorization: `Bearer ${key}` },
    });
    await services.ledger.sealAll('default', [anEvent(), anEvent()]);
    const text = await response.text();
    const report = await verified(text);
    expect(report.ok).toBe(true);
    const { position } = await services.db.evidenceHead.findUniqueOrThrow({
      where: { tenantId: 'default' },
    });
    // The ledger has three more events: the record of the export itself, and the two events sealed above.
    expect(report.events).toBe(Number(position) - 3);
  });

  it('can be requested by many callers concurrently while events are sealed', async () => {
    const sealing = services.ledger.sealAll(
      'default',
      Array.from({ length: 20 }, () => anEvent()),
    );
    const answers = await Promise.all(Array.from({ length: 30 }, () => get('export?tool=pay')));
    await sealing;
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
    expect(await verified(answers.at(-1)?.text ?? '')).toMatchObject({ ok: true });
  });

  it('is recorded with the caller and the filter before the first byte is sent', async () => {
    await download('?format=siem&dialect=ocsf&tool=pay');
    const events = await eventsOf(services, 'default');
    expect(events.at(-1)).toMatchObject({
      type: 'evidence.exported',
      data: { by: 'ada', format: 'siem', dialect: 'ocsf', filters: { tool: 'pay' } },
    });
  });

  it.each([
    'format=xml',
    'format=JSON',
    'dialect=ocsf',
    'format=csv&dialect=ocsf',
    'format=siem&dialect=ecs',
    'from=yesterday',
    `from=${timeOf(9)}&to=${timeOf(8)}`,
    'limit=3',
    'cursor=x',
    'tool=',
  ])('is refused for the query %s', async (query) => {
    const answer = await get(`export?${query}`);
    expect([answer.status, answer.body?.reason_code]).toEqual([400, 'request.invalid']);
  });

  it('requires the permission to export; the permission to read is not sufficient', async () => {
    for (const role of ['developer', 'approver', 'agent', 'gateway'] as const) {
      expect((await get('export', await api.key({ role }))).status).toBe(403);
    }
  });

  it('contains nothing of another tenant', async () => {
    const other = await api.key({ role: 'auditor', tenantId: 'other' });
    const { text } = await get('export', other);
    expect(JSON.parse(text)).toMatchObject({ tenant: 'other', size: 3 });
    expect(await verified(text)).toMatchObject({ trusted: false });
  });
});

describe('the published keys', () => {
  it('are the public parts of active and retired keys of each purpose', async () => {
    const before = await download();
    const owner = await api.client();
    const rotated = await owner.call(rotateSigningKey, { body: { purpose: 'export' } });
    const answer = await get('jwks');
    expect(answer.headers.get('content-type')).toBe('application/jwk-set+json');
    const keys = await jwksOf();
    expect(
      keys.filter(({ purpose }) => purpose === 'export').map(({ kid, status }) => [kid, status]),
    ).toEqual([
      [rotated.active_key_id, 'active'],
      [rotated.retired_key_id, 'retired'],
    ]);
    expect(new Set(keys.map(({ purpose, alg }) => `${purpose} ${alg}`))).toEqual(
      new Set(['report ES256', 'export EdDSA', 'checkpoint EdDSA', 'certificate EdDSA']),
    );
    expect(keys.some((jwk) => 'd' in jwk || 'sealed' in jwk)).toBe(false);
    expect(await verified(before.text)).toMatchObject({ ok: true, trusted: true });
    expect(await verified((await download()).text)).toMatchObject({ ok: true, trusted: true });
  });

  it('never include a key that was written directly to the database', async () => {
    const forged = generateSigningKey();
    const jwk = JSON.stringify(forged.publicJwk);
    await tamper(
      database.url,
      `INSERT INTO signing_key (tenant_id, kid, purpose, alg, public_jwk, sealed, state)
       SELECT tenant_id, '${forged.kid}', purpose, alg, '${jwk}', sealed, 'retired'
         FROM signing_key WHERE tenant_id = 'default' AND purpose = 'export' LIMIT 1`,
    );
    const answer = await get('jwks');
    expect(answer.text).not.toContain(forged.kid);
    await tamper(database.url, `DELETE FROM signing_key WHERE kid = '${forged.kid}'`);
    expect((await get('jwks')).status).toBe(200);
  });
});

describe('a ledger that was changed in the database', () => {
  const canonicalOf = async (position: number) =>
    (
      await services.db.evidenceRow.findUniqueOrThrow({
        where: { tenantId_position: { tenantId: 'default', position } },
      })
    ).canonical;
  const write = (position: number, canonical: string) =>
    tamper(
      database.url,
      `UPDATE evidence_row SET canonical = $t$${canonical}$t$
        WHERE tenant_id = 'default' AND position = ${position}`,
    );

  it('is exported unchanged, and verification of the export reports the first changed event and its chain', async () => {
    const before = await canonicalOf(12);
    await write(12, before.replace('"decision":"deny"', '"decision":"allow"'));
    const problem = { kind: 'content_mismatch', position: 12, chain_id: 'agent:4' };
    for (const query of ['', '?agent_id=4']) {
      const report = await verified((await download(query)).text);
      expect(report).toMatchObject({ ok: false, trusted: true, problem });
    }
    await write(12, before);
  });

  it('is exported only up to an event that cannot be read; the export then ends without a signature', async () => {
    const before = await canonicalOf(250);
    await write(250, 'not JSON');
    const response = await fetch(`${api.origin}/api/v1/evidence/export?format=csv`, {
      headers: { authorization: `Bearer ${key}` },
    });
    const parts: Uint8Array[] = [];
    await expect(
      (async () => {
        for await (const part of response.body ?? []) parts.push(part);
      })(),
    ).rejects.toThrow();
    const report = await verified(Buffer.concat(parts).toString());
    expect(report).toMatchObject({ ok: false, problem: { kind: 'broken_off' } });
    expect((await download()).status).toBe(200);
    await write(250, before);
  });
});
