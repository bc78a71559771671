import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { allRoutes } from '../../../control-plane/routes.ts';
import { startApi, type TestApi } from '../../support/control-plane/api.ts';
import { type TestServices, testServices } from '../../support/control-plane/services.ts';
import { anEvent } from '../../support/ledger/ledger.ts';
import { type PolicyFolder, policyFolder } from '../../support/policy/policy-files.ts';

let services: TestServices;
let api: TestApi;
let folder: PolicyFolder;
beforeAll(async () => {
  services = await testServices();
  api = await startApi(allRoutes(services), services);
  const events = ['1', '2', '2'].map((id) => anEvent({ agent_id: id, chain_id: `agent:${id}` }));
  await services.ledger.sealAll('default', events);
  folder = policyFolder({
    SALLYPORT_CONTROL_PLANE_URL: api.origin,
    SALLYPORT_API_KEY: await api.key({ role: 'auditor', principal: 'ada' }),
  });
});
afterAll(async () => {
  folder?.remove();
  await api?.close();
  await services?.close();
});

const exported = (...args: readonly string[]) => folder.sallyport('evidence', 'export', ...args);

describe('sallyport evidence export', () => {
  it.each(['json', 'csv', 'md', 'siem'])(
    'prints the number of exported events to standard error for the format %s',
    async (format) => {
      const ran = await exported('--agent', '2', '--format', format, '-o', 'two.out');
      expect(ran).toEqual({ code: 0, out: '', err: 'Wrote 2 events to two.out.\n' });
    },
  );

  it('prints nothing but the export to standard output', async () => {
    const { code, out, err } = await exported('--agent', '1');
    expect([code, err]).toEqual([0, 'Wrote 1 event.\n']);
    expect(JSON.parse(out)).toMatchObject({ statement: { events: 1 } });
  });

  it('warns if no event matched the filter, and if the agent id is not a number', async () => {
    const named = await exported('--agent', 'py', '-o', 'none.json');
    expect(named.code).toBe(0);
    expect(named.err).toBe(
      'Wrote 0 events to none.json.\n' +
        'Warning: no event matched the filter: agent_id py.\n' +
        'Warning: --agent: "py" is not the id of a registered agent; ids are numbers, as in --agent 7.\n',
    );
    const numbered = await exported('--agent', '99', '-o', 'none.json');
    expect(numbered.err).toBe(
      'Wrote 0 events to none.json.\nWarning: no event matched the filter: agent_id 99.\n',
    );
  });

  it.each(['export', 'tail'])('`evidence %s` refuses an unknown decision', async (verb) => {
    const ran = await folder.sallyport('evidence', verb, '--decision', 'dney');
    expect([ran.code, ran.out]).toEqual([2, '']);
    expect(ran.err).toContain('Allowed choices are allow, deny, warn, require_approval');
  });
});
