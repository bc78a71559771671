import { type ChildProcess, spawn } from 'node:child_process';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { allRoutes } from '../../../control-plane/routes.ts';
import { listEvidenceEvents } from '../../../shared/contract/evidence/evidence.ts';
import { until } from '../../support/base/until.ts';
import { startApi, type TestApi } from '../../support/control-plane/api.ts';
import { type TestServices, testServices } from '../../support/control-plane/services.ts';
import { anEvent } from '../../support/ledger/ledger.ts';
import { type PolicyFolder, policyFolder } from '../../support/policy/policy-files.ts';
import { startCutProxy } from '../../support/programs/cut-proxy.ts';

const launcher = join(resolve(import.meta.dirname, '../../..'), 'cli/sallyport');

let services: TestServices;
let api: TestApi;
let folder: PolicyFolder;
let settings: { SALLYPORT_CONTROL_PLANE_URL: string; SALLYPORT_API_KEY: string };
beforeAll(async () => {
  services = await testServices();
  api = await startApi(allRoutes(services), services);
  await services.ledger.sealAll('default', [
    anEvent({ tool: 'mail.send' }),
    anEvent({ tool: 'pay', decision: 'deny', reason_code: 'refund.out_of_policy' }),
    anEvent({ tool: 'pay\u001b[2J' }),
  ]);
  settings = {
    SALLYPORT_CONTROL_PLANE_URL: api.origin,
    SALLYPORT_API_KEY: await api.key({ role: 'auditor', principal: 'ada' }),
  };
  folder = policyFolder(settings);
});
afterAll(async () => {
  folder?.remove();
  await api?.close();
  await services?.close();
});

const evidence = (...args: readonly string[]) => folder.sallyport('evidence', ...args);

describe('sallyport evidence stats', () => {
  it('counts events and decisions, and replaces control characters', async () => {
    const { code, out } = await evidence('stats', '--by', 'tool');
    expect(code).toBe(0);
    expect(out).toMatch(/^pay +1 +deny 1$/m);
    expect(out).toMatch(/^pay\?\[2J +1 +allow 1$/m);
    expect(out).toContain('denied 1 time: refund.out_of_policy');
    expect(out).not.toContain('\u001b');
  });

  it('prints its counts as JSON, and refuses an unknown group', async () => {
    const { out } = await evidence('stats', '--by', 'agent', '--json');
    expect(JSON.parse(out).totals).toContainEqual({ key: '7', events: 3, decisions: 3 });
    const odd = await evidence('stats', '--by', 'user');
    expect([odd.code, odd.out]).toEqual([2, '']);
  });
});

describe('sallyport evidence tail', () => {
  let child: ChildProcess | undefined;
  afterAll(() => child?.kill());

  it('prints events that are sealed after its start, and resumes after a broken connection', async () => {
    const line = await startCutProxy(api.origin);
    child = spawn(launcher, ['evidence', 'tail', '--tool', 'pay', '--count', '3'], {
      env: { PATH: process.env.PATH, ...settings, SALLYPORT_CONTROL_PLANE_URL: line.url },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let out = '';
    child.stdout?.on('data', (part) => {
      out += part;
    });
    const ended = new Promise((done) => child?.once('exit', done));
    await until(() => services.feed.followers === 1, { what: 'it follows' });
    const pay = (decision: string) => anEvent({ tool: 'pay', decision });
    await services.ledger.sealAll('default', [pay('deny'), anEvent(), pay('allow')]);
    await until(() => out.split('\n').length === 3, { what: 'two events are shown' });
    line.isDown = true;
    await services.ledger.seal('default', pay('deny'));
    line.isDown = false;
    expect(await ended).toBe(0);
    await line.close();
    const rows = out.trim().split('\n');
    expect(rows.map((row) => row.split('  ').slice(4, 6))).toEqual([
      ['pay', 'deny'],
      ['pay', 'allow'],
      ['pay', 'deny'],
    ]);
  });

  it('starts after a cursor, and refuses an invalid cursor', async () => {
    const key = settings.SALLYPORT_API_KEY;
    const { events } = await (await api.client(key)).call(listEvidenceEvents, {
      query: { limit: 1 },
    });
    const after = ['--after', events[0]?.cursor ?? ''];
    const { out } = await evidence('tail', ...after, '--count', '1', '--json');
    expect(JSON.parse(out)).toMatchObject({ position: 2, decision: 'deny' });
    const odd = await evidence('tail', '--after', 'AAAA');
    expect([odd.code, odd.err]).toEqual([2, expect.stringContaining('cursor')]);
  });
});

describe('sallyport evidence verify with an audit trail', () => {
  beforeAll(async () => {
    const key = settings.SALLYPORT_API_KEY;
    for (const format of ['json', 'csv', 'md']) {
      const { text } = await api.send('GET', `/api/v1/audit/export?format=${format}`, { key });
      folder.write(`trail.${format}`, text);
      folder.write(`changed.${format}`, text.replace('audit.exported', 'audit.imported'));
    }
    await evidence('jwks', '-o', 'keys.json');
  });

  it.each(['json', 'csv', 'md'])(
    'distinguishes an intact trail from a changed trail in the format %s',
    async (format) => {
      const whole = await evidence('verify', `trail.${format}`, '--jwks', 'keys.json');
      expect([whole.code, whole.out]).toEqual([
        0,
        expect.stringContaining('audit trail of default'),
      ]);
      const changed = await evidence('verify', `changed.${format}`, '--jwks', 'keys.json');
      expect([changed.code, changed.out]).toEqual([1, expect.stringContaining('NOT VERIFIED')]);
    },
  );

  it('requires --jwks, and does not trust a trail that is signed with a key for exports', async () => {
    const bare = await evidence('verify', 'trail.csv');
    expect([bare.code, bare.out]).toEqual([2, '']);
    const shown = await evidence('verify', 'trail.json', '--jwks', 'keys.json', '--json');
    const { keys } = JSON.parse((await folder.shell('cat keys.json')).out);
    const others = keys.map((one: object) => ({ ...one, purpose: 'export' }));
    folder.write('others.json', JSON.stringify({ keys: others }));
    expect(JSON.parse(shown.out)).toMatchObject({ ok: true, trusted: true, format: 'json' });
    expect((await evidence('verify', 'trail.json', '--jwks', 'others.json')).code).toBe(3);
  });
});
