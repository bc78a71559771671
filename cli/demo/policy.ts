/** The policy of the demo: what each refund may cost, and that customers may be looked up. */
export const demoPolicy = {
  id: 'demo',
  version: 1,
  description: 'Small refunds go through, middling ones need a human, large ones never',
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
