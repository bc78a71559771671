import type { createApi } from './api.ts';

/** Stores the bindings, the credential and the policy of the demo. */
export async function configure({
  api,
  secret,
  paymentsPort,
  crmPort,
  modelPort,
}: {
  readonly api: ReturnType<typeof createApi>['api'];
  readonly secret: string;
  readonly paymentsPort: number;
  readonly crmPort: number;
  readonly modelPort: number;
}): Promise<void> {
  await api('PUT', '/v1/runtime/bindings/refunds', {
    protocol: 'http',
    host: `localhost:${paymentsPort}`,
    method: 'POST',
    path: '/v1/refunds',
    body: 'json',
    tool: 'payments.refund',
    resource: 'payment:{payment_id}',
  });
  await api('PUT', '/v1/runtime/bindings/crm', {
    protocol: 'mcp',
    host: `localhost:${crmPort}`,
    path: '/mcp',
  });
  await api('PUT', '/v1/runtime/bindings/model', {
    protocol: 'passthrough',
    host: `localhost:${modelPort}`,
  });
  await api('POST', '/v1/credentials', {
    name: 'payments',
    secret,
    inject: { in: 'bearer' },
    bind: { tools: ['payments.*'], hosts: [`localhost:${paymentsPort}`] },
  });
  await api('POST', '/v1/policies', { name: 'Demo', rules_json: demoPolicy, publish: true });
}

/**
 * Allows small refunds and customer look-ups, requires a human's approval for medium refunds, and
 * denies large ones.
 */
const demoPolicy = {
  id: 'demo',
  version: 1,
  description: 'Allows small refunds, asks a human for middling ones, denies large ones',
  rules: [
    {
      name: 'small refunds',
      decision: 'allow',
      reason: 'refund.small_in_scope',
      when: {
        all: [
          { path: 'tool.name', operator: '==', value: 'payments.refund' },
          { path: 'args.amount', operator: '<=', value: 100 },
        ],
      },
    },
    {
      name: 'middling refunds',
      decision: 'require_approval',
      reason: 'refund.needs_approval',
      approval: { channel: 'api', min_role: 'approver' },
      when: {
        all: [
          { path: 'tool.name', operator: '==', value: 'payments.refund' },
          { path: 'args.amount', operator: '>', value: 100 },
          { path: 'args.amount', operator: '<=', value: 1000 },
        ],
      },
    },
    {
      name: 'large refunds',
      decision: 'deny',
      reason: 'refund.out_of_policy',
      when: {
        all: [
          { path: 'tool.name', operator: '==', value: 'payments.refund' },
          { path: 'args.amount', operator: '>', value: 1000 },
        ],
      },
    },
    {
      name: 'customer look-up',
      decision: 'allow',
      reason: 'crm.read',
      when: { all: [{ path: 'tool.name', operator: '==', value: 'mcp.crm.lookup_customer' }] },
    },
  ],
};
