import { afterAll, beforeAll, expect, it } from 'vitest';
import { allRoutes } from '../../../control-plane/routes.ts';
import { startApi, type TestApi } from '../../support/control-plane/api.ts';
import { type TestServices, testServices } from '../../support/control-plane/services.ts';
import { anEvent } from '../../support/ledger/ledger.ts';
import { type PolicyFolder, policyFolder } from '../../support/policy/policy-files.ts';
import { follow, guideSteps, howTo, timeless } from '../../support/system/guide.ts';

let services: TestServices;
let api: TestApi;
let folder: PolicyFolder;
beforeAll(async () => {
  services = await testServices();
  api = await startApi(allRoutes(services), services);
  const agents = ['2', '2', '1', '1', '2', '1'];
  const events = agents.map((id) => anEvent({ agent_id: id, chain_id: `agent:${id}` }));
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

const lasting = (text: string) =>
  timeless(text)
    .replaceAll(/\bsha256:[0-9a-f]{64}\b/g, 'HASH')
    .replaceAll(/(?<![\w-])[\w-]{43}(?![\w-])/g, 'KEY');

it('each command of the evidence guide prints the output that the guide shows', async () => {
  const done = await follow(guideSteps(howTo('verify-evidence.md')), folder);
  expect(done.length).toBeGreaterThan(10);
  for (const { line, printed, really } of done) {
    expect(`$ ${line}\n${lasting(really)}`).toBe(`$ ${line}\n${lasting(printed)}`);
  }
});
