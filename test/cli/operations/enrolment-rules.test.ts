import { afterAll, beforeAll, expect, it } from 'vitest';
import { startWorkloadStage, type WorkloadStage } from '../../control-plane/workloads/stage.ts';
import { type PolicyFolder, policyFolder } from '../../support/policy/policy-files.ts';

let stage: WorkloadStage;
let folder: PolicyFolder;
beforeAll(async () => {
  stage = await startWorkloadStage();
  folder = policyFolder({
    SALLYPORT_CONTROL_PLANE_URL: stage.gateway.api.origin,
    SALLYPORT_API_KEY: await stage.gateway.api.key({ role: 'admin', principal: 'adam' }),
  });
});
afterAll(async () => {
  folder?.remove();
  await stage?.close();
});

const rules = (...args: readonly string[]) => folder.sallyport('sidecars', 'rules', ...args);
const set = (name: string, ...more: readonly string[]) => {
  const terms = ['--issuer', stage.issuer.issuer, '--namespace', 'billing', '--user', 'user-1'];
  const account = ['--service-account', 'refund-agent', '--agent', stage.agentId];
  return rules('set', name, ...terms, ...account, ...more);
};

it('sets, lists and removes enrolment rules, and reports what they grant and revoke', async () => {
  expect((await rules('list')).out).toMatch(
    /^No enrolment rules\. Run `sallyport sidecars rules set`/,
  );
  const made = await set('refunds');
  expect(made).toMatchObject({ code: 0, err: '' });
  expect(made.out).toBe(
    `Sidecars of billing/refund-agent enrol as agent ${stage.agentId} for user-1 in prod.\nThey can call: pay.*\n`,
  );
  const [head, row] = (await rules('list')).out.split('\n');
  expect(head).toMatch(/^RULE +SERVICE ACCOUNT +AGENT +USER +ENV +AUDIENCE +ISSUER$/);
  expect(row).toMatch(/^refunds +billing\/refund-agent +\d+ +user-1 +prod +sallyport +https:/);
  await stage.enrol(await stage.issuer.token());
  const changed = await set('refunds', '--environment', 'dev');
  expect(changed.out).toContain('Revoked 1 sidecar of the former rule.');
  await stage.enrol(await stage.issuer.token());
  expect((await rules('remove', 'refunds')).out).toBe(
    'Removed the enrolment rule refunds, and revoked 1 sidecar that it enrolled.\n',
  );
  expect(JSON.parse((await rules('list', '--json')).out)).toEqual({ rules: [] });
});

it.each([
  [
    'a missing option',
    2,
    () => rules('set', 'x', '--issuer', 'https://x'),
    /Missing required option '--namespace'/,
  ],
  ['an unknown agent', 1, () => set('x', '--agent', '0'), /agent does not exist/],
  [
    'an issuer that is not configured',
    1,
    () => set('x', '--issuer', 'https://x.example'),
    /SALLYPORT_OIDC_ISSUERS/,
  ],
  ['an unknown rule', 1, () => rules('remove', 'nothing'), /enrolment rule does not exist/],
])('refuses %s with exit code %d', async (_what, code, call, problem) => {
  const answer = await call();
  expect(answer.code).toBe(code);
  expect(answer.err).toMatch(problem);
});
