import type { Binding } from '../../../shared/binding/binding.ts';

export const disguisedHost = 'api.example.com';

/**
 * A disguised request, and how it must be recognised. `same`: as the same action and the same bytes
 * as the plain call. Any other text is the code of the refusal.
 */
export type Disguise = readonly [name: string, request: Buffer, becomes: string];

/** The bindings on the host of the denied calls. */
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
