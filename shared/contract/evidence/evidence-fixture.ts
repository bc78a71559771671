import { z } from 'zod';
import { operation } from '../base/operation.ts';
import { opaqueId } from '../base/schemas.ts';

export const getDecisionFixture = operation({
  id: 'getDecisionFixture',
  method: 'GET',
  path: '/v1/evidence/events/{id}/fixture',
  tag: 'Evidence',
  summary: 'Get a stored decision as a policy test case',
  description:
    'A case file for `sallyport policy test`: the context as far as the ledger stores it, and the decision. Argument values are not stored; comments in the YAML mark where to add them.',
  auth: 'bearer',
  permission: 'evidence.read',
  params: z.object({ id: opaqueId }),
  query: z.object({ format: z.enum(['yaml', 'json']).default('yaml') }),
  success: {
    status: 200,
    description: 'The case file; with `format=json` as `application/json`.',
    contentType: 'application/yaml',
    otherContentTypes: ['application/json'],
    example: [
      'cases:',
      '  - name: allow payments.refund ev_019a3f6c2b7e7c1f8a5d3e2f1a0b9c8d',
      '    context:',
      '      agent: {id: "7"}',
      '      tool: {name: payments.refund}',
      '      args:',
      '        amount: 0 # fill in: a number',
      '    expect: {decision: allow, reason_code: refund.small_in_scope}',
      '',
    ].join('\n'),
  },
  errors: ['evidence.event_not_found', 'evidence.not_a_decision', 'evidence.id_conflict'],
});
