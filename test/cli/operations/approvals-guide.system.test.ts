import { afterAll, beforeAll, expect, it } from 'vitest';
import { preflight } from '../../../shared/contract/actions.ts';
import { createPolicy } from '../../../shared/contract/policies/policies.ts';
import { type Gateway, rule, startGateway } from '../../support/control-plane/gateway.ts';
import { type PolicyFolder, policyFolder } from '../../support/policy/policy-files.ts';
import { follow, guideSteps, howTo, timeless } from '../../support/system/guide.ts';

let gateway: Gateway;
let folder: PolicyFolder;
beforeAll(async () => {
  gateway = await startGateway();
  const agent_id = await gateway.agent();
  const refunds = {
    name: 'middling',
    reason: 'refund.needs_approval',
    approval: { grant: { max_uses: 10, max_ttl_seconds: 86_400 } },
  };
  const payouts = { name: 'payouts', reason: 'payout.needs_two', approval: { quorum: 2 } };
  const rules = [
    rule('require_approval', 'payments.refund', refunds),
    rule('require_approval', 'payments.payout', payouts),
  ];
  const rules_json = { id: 'payments', version: 1, rules };
  await gateway.owner.call(createPolicy, { body: { name: 'payments', rules_json, publish: true } });
  const bot = await gateway.as({ role: 'agent', principal: 'bot' });
  for (const [tool, resource, amount] of [
    ['payments.refund', 'payment:p1', 500],
    ['payments.refund', 'payment:p2', 950],
    ['payments.refund', 'payment:p3', 200],
    ['payments.payout', 'account:a1', 5000],
  ] as const) {
    const asked = { agent_id, user_id: 'ada', goal: 'Help customers' };
    const body = { ...asked, tool, resource, args: { amount } };
    await bot.call(preflight, { body });
  }
  const key = (principal: string) => gateway.api.key({ role: 'approver', principal });
  folder = policyFolder({
    SALLYPORT_CONTROL_PLANE_URL: gateway.api.origin,
    SALLYPORT_API_KEY: await key('olga'),
  });
  folder.write('ben.key', await key('ben'));
});
afterAll(async () => {
  folder?.remove();
  await gateway?.close();
});

const lasting = (text: string) => timeless(text).replaceAll(/\bsha256:[0-9a-f]{64}\b/g, 'HASH');

it('each command of the approvals guide prints the output that the guide shows', async () => {
  const done = await follow(guideSteps(howTo('decide-approvals.md')), folder);
  expect(done.length).toBeGreaterThan(11);
  for (const { line, printed, really } of done) {
    expect(`$ ${line}\n${lasting(really)}`).toBe(`$ ${line}\n${lasting(printed)}`);
  }
});
