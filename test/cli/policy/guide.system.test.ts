import { afterAll, beforeAll, expect, it } from 'vitest';
import { allRoutes } from '../../../control-plane/routes.ts';
import { registerAgent } from '../../../shared/contract/agents.ts';
import { putBinding } from '../../../shared/contract/bindings.ts';
import { fieldAt } from '../../../shared/policy/language/context-fields.ts';
import { operators, ruleDecisions } from '../../../shared/policy/language/definition.ts';
import { modes } from '../../../shared/vocabulary/action.ts';
import { startApi, type TestApi } from '../../support/control-plane/api.ts';
import { type TestServices, testServices } from '../../support/control-plane/services.ts';
import { type PolicyFolder, policyFolder } from '../../support/policy/policy-files.ts';
import { follow, guideSteps, howTo, timeless } from '../../support/system/guide.ts';

const page = howTo('write-policies.md');

let services: TestServices;
let api: TestApi;
let folder: PolicyFolder;
beforeAll(async () => {
  services = await testServices();
  await services.db.tenant.create({ data: { id: 'default', name: 'default' } });
  api = await startApi(allRoutes(services), services);
  const key = await api.key({ principal: 'owner' });
  const client = await api.client(key);
  await client.call(registerAgent, { body: { name: 'demo', capabilities: ['*'] } });
  const body = {
    protocol: 'http',
    host: 'api.payments.example',
    method: 'POST',
    path: '/v1/refunds',
    body: 'json',
    tool: 'payments.refund',
    resource: 'payment:{payment_id}',
  } as const;
  await client.call(putBinding, { params: { name: 'refunds' }, body });
  folder = policyFolder({
    SALLYPORT_CONTROL_PLANE_URL: api.origin,
    SALLYPORT_API_KEY: key,
    // The shell variables that the page sets first.
    api: `${api.origin}/api`,
    key: `authorization: Bearer ${key}`,
    json: 'content-type: application/json',
  });
});
afterAll(async () => {
  folder?.remove();
  await api?.close();
  await services?.close();
});

it('each command of the policy guide prints the output that the guide shows', async () => {
  const done = await follow(guideSteps(page), folder);
  expect(done.length).toBeGreaterThan(20);
  for (const { line, printed, really } of done) {
    expect(`$ ${line}\n${timeless(really)}`).toBe(`$ ${line}\n${timeless(printed)}`);
  }
});

it('the policy guide lists every decision, operator and mode, and only paths that exist', () => {
  const row = (name: string) =>
    new RegExp(`^\\| \`${name}\` \\| (.*) \\|$`, 'm').exec(page)?.[1] ?? '';
  const words = (name: string) => [...row(name).matchAll(/`([^`]+)`/g)].map(([, word]) => word);
  expect(words('decision').toSorted()).toEqual([...ruleDecisions].sort());
  expect(words('operator')).toEqual([...operators, '{ $ref: args.limit }']);
  expect(words('mode').toSorted()).toEqual([...modes].sort());
  const paths = words('path').filter((path) => path !== 'args.…');
  expect(paths.length).toBeGreaterThan(15);
  expect(paths.filter((path = '') => fieldAt(path) === undefined)).toEqual([]);
});
