import { afterAll, beforeAll, expect, it } from 'vitest';
import type { JsonObject } from '../../../shared/base/json.ts';
import { createPolicy, updatePolicy } from '../../../shared/contract/policies/policies.ts';
import { type Gateway, startGateway } from '../../support/control-plane/gateway.ts';

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway();
});
afterAll(() => gateway.close());

const smallAmount = { path: 'args.amount', operator: '<=', value: '100' };
const policyOf = (id: string, ...conditions: JsonObject[]) => ({
  id,
  version: 1,
  rules: [{ name: 'small', decision: 'allow', reason: 'test.small', when: { all: conditions } }],
});

it('storing or publishing a policy returns the lint findings as warnings', async () => {
  const { owner } = gateway;
  const anyTool = { name: 'any', rules_json: policyOf('any', smallAmount), publish: true };
  const published = await owner.call(createPolicy, { body: anyTool });
  expect(published.lifecycle).toBe('published');
  expect(published.warnings).toEqual([expect.stringMatching(/^rules\[0\].*\(permits_any_tool\)$/)]);

  const noSuchPath = { path: 'tool', operator: '==', value: 'payments.refund' };
  const draft = await owner.call(createPolicy, {
    body: { name: 'never', rules_json: policyOf('never', noSuchPath), publish: false },
  });
  expect(draft.warnings?.join()).toContain('(never_matches)');

  const { id } = draft;
  const tool = { path: 'tool.name', operator: '==', value: 'payments.refund' };
  const mended = policyOf('never', tool, smallAmount);
  const updated = await owner.call(updatePolicy, { params: { id }, body: { rules_json: mended } });
  expect(updated.warnings?.join() ?? '').not.toContain('never_matches');
});
