import type { Binding } from '../../../shared/binding/binding.ts';

export const disguisedHost = 'api.example.com';

/** `same`: the plain call's action and the plain call's bytes. Else the refusal's code. */
export type Disguise = readonly [name: string, request: Buffer, becomes: string];

/** What is bound on the host of the denied calls. */
export const disguisedBindings = (host: string): readonly Binding[] => [
  {
    name: 'refund',
    protocol: 'http',
    host,
    tool: 'payments.refund',
    method: 'POST',
    path: '/v1/payments/{payment_id}/refund',
    resource: 'payment:{payment_id}',
  },
  {
    name: 'read',
    protocol: 'http',
    host,
    tool: 'payments.read',
    method: 'POST',
    path: '/v1/payments/{payment_id}/read',
  },
  {
    name: 'list',
    protocol: 'http',
    host,
    tool: 'payments.list',
    method: 'GET',
    path: '/v1/payments',
  },
  {
    name: 'transfer',
    protocol: 'http',
    host,
    tool: 'payments.transfer',
    method: 'POST',
    path: '/v1/transfers',
    body: 'form',
  },
  { name: 'payments', protocol: 'mcp', host, path: '/mcp' },
];
