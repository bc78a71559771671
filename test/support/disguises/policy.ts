const is = (tool: readonly string[]) => ({ path: 'tool.name', operator: 'in', value: [...tool] });
const paying = [
  'payments.refund',
  'payments.transfer',
  'mcp.payments.refund.create',
  'mcp.payments_tls.refund.create',
];
const reading = ['payments.read', 'mcp.payments.refund.list', 'mcp.payments_tls.refund.list'];

/**
 * Denies the disguised calls, and allows small amounts, reads and one customer's list. If a denied
 * call is recognised as one of the allowed ones, it is performed and the test fails.
 */
export const disguisePolicy = {
  id: 'disguises',
  version: 1,
  rules: [
    {
      name: 'small',
      decision: 'allow',
      reason: 'pay.small',
      when: { all: [is(paying), { path: 'args.amount', operator: '<=', value: 100 }] },
    },
    {
      name: 'large',
      decision: 'deny',
      reason: 'pay.too_large',
      when: { all: [is(paying), { path: 'args.amount', operator: '>', value: 100 }] },
    },
    { name: 'reads', decision: 'allow', reason: 'pay.read', when: { all: [is(reading)] } },
    {
      name: 'open paths',
      decision: 'allow',
      reason: 'open.read',
      when: {
        all: [
          is(['http.get.127.0.0.1']),
          { path: 'resource.id', operator: 'matches', value: '^/open/' },
        ],
      },
    },
    {
      name: 'own list',
      decision: 'allow',
      reason: 'list.own',
      when: {
        all: [is(['payments.list']), { path: 'args.customer', operator: '==', value: 'cus_2' }],
      },
    },
    {
      name: 'foreign list',
      decision: 'deny',
      reason: 'list.foreign',
      when: {
        all: [is(['payments.list']), { path: 'args.customer', operator: '!=', value: 'cus_2' }],
      },
    },
  ],
};
