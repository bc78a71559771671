import { describe, expect, it } from 'vitest';
import { buildContext } from '../../../shared/decision/context.ts';
import type { Action } from '../../../shared/vocabulary/action.ts';
import { parseResource } from '../../../shared/vocabulary/resource.ts';
import { baseAction, baseState, signedPassport } from '../fixtures.ts';

const resourceOf = (change: Partial<Action>) =>
  buildContext({ ...baseAction, ...change }, baseState).resource;

describe('the policy context', () => {
  it('contains every field of the contract', () => {
    expect(buildContext(baseAction, { ...baseState, passport: signedPassport() })).toEqual({
      tenant: { id: 'acme', name: 'Acme' },
      agent: { id: '7', name: 'refund-bot', goal: 'support' },
      user: { id: 'alice', email: 'alice@acme.com', role: 'support' },
      tool: {
        name: 'mcp.payments.refund',
        current_manifest_hash: baseState.tool?.manifestHash,
        risk_tier: 'medium',
      },
      passport: {
        goal: 'settle refunds',
        resource_constraints: {},
        audience: 'gateway://agents',
        tenant_id: 'acme',
      },
      args: baseAction.args,
      resource: { id: 'pay_1', type: 'payment', customer_id: 'cus_1' },
      environment: 'prod',
    });
  });

  it('contains only stored facts, whatever the request claims', () => {
    const action = { ...baseAction, agentName: 'ceo-bot', goal: 'stated' };
    const state = { ...baseState, agent: undefined, user: undefined, tool: undefined };
    const context = buildContext(action, state);
    expect(context).toMatchObject({
      agent: { id: '7', goal: 'stated' },
      user: { id: 'alice' },
      tool: { name: 'mcp.payments.refund' },
    });
    expect(context.agent).not.toHaveProperty('name');
    expect(context).not.toHaveProperty('passport');
  });

  it('contains the registered goal of the agent, not the claimed one', () => {
    const context = buildContext({ ...baseAction, goal: 'anything' }, baseState);
    expect(context.agent).toMatchObject({ goal: 'support' });
  });

  it('contains the directory record of the action’s user and of no other user', () => {
    const state = { ...baseState, user: { id: 'bob', role: 'admin' } };
    expect(buildContext(baseAction, state).user).toEqual({ id: 'alice' });
  });

  it('contains no data from a passport that does not verify', () => {
    const passport = { form: 'signature_invalid', detail: 'x' } as const;
    expect(buildContext(baseAction, { ...baseState, passport })).not.toHaveProperty('passport');
  });
});

describe('a resource', () => {
  it.each([
    ['payment:pay_1', { type: 'payment', id: 'pay_1' }],
    ['pay_1', { id: 'pay_1' }],
    ['a:b:c', { type: 'a', id: 'b:c' }],
    [':x', { id: ':x' }],
    ['x:', { type: 'x', id: '' }],
    ['', { id: '' }],
    ['file:///a:/public/x', { type: 'file', id: '///a:/public/x' }],
    ['/secret/keys:/public/x', { id: '/secret/keys:/public/x' }],
    ['/:x', { id: '/:x' }],
    ['secret/keys:/public/x', { id: 'secret/keys:/public/x' }],
    ['%2Fsecret:/public/x', { id: '%2Fsecret:/public/x' }],
    ['\\\\secret:/public/x', { id: '\\\\secret:/public/x' }],
  ])('is parsed: %j becomes %j', (resource, parsed) => {
    expect(parseResource(resource)).toEqual(parsed);
  });

  it('has its own id as the customer id if its type is customer', () => {
    expect(resourceOf({ resource: 'customer:cus_9', args: {} })).toMatchObject({
      customer_id: 'cus_9',
    });
  });

  it('has no customer id if its customer differs from the customer in the arguments', () => {
    const resource = resourceOf({ resource: 'customer:cus_9', args: { customer_id: 'cus_1' } });
    expect(resource).not.toHaveProperty('customer_id');
  });

  it.each([
    '{"toString": null, "valueOf": null}',
    '{"toString": "cus_9"}',
    '["cus_9"]',
    '[["cus_9"]]',
    'true',
  ])('has no customer id if the customer argument is neither a string nor a number: %s', (text) => {
    const args = { customer_id: JSON.parse(text) };
    const resource = resourceOf({ resource: 'customer:cus_9', args });
    expect(resource).not.toHaveProperty('customer_id');
  });

  it('has a customer id if the customer argument is the same id, written as a number', () => {
    expect(resourceOf({ resource: 'customer:12', args: { customer_id: 12 } })).toMatchObject({
      customer_id: '12',
    });
  });

  it('has no customer id if the customer argument comes from a prototype', () => {
    const args = JSON.parse('{"__proto__": {"customer_id": "cus_1"}}');
    expect(resourceOf({ args })).not.toHaveProperty('customer_id');
  });
});
