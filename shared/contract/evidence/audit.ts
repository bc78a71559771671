import { z } from 'zod';
import { auditFormats } from '../../ledger/audit/statement.ts';
import { named } from '../base/json-schema.ts';
import { operation } from '../base/operation.ts';
import { pageLimit } from '../base/schemas.ts';
import {
  evidenceCursor,
  evidenceFilters,
  isInOrder,
  sealedEvent,
  sealedExample,
} from './evidence.ts';

const shared = { tag: 'Audit', auth: 'bearer' } as const;
const order = { path: ['from'], message: 'must not be after to' };
const trail =
  'All sealed events except agent traffic (decisions, execution results, issued and renewed passports) and custom events.';

const auditQuery = z
  .object({ ...evidenceFilters, cursor: evidenceCursor.optional(), limit: pageLimit })
  .refine(isInOrder, order);
export type AuditQuery = z.output<typeof auditQuery>;

const chain = z.object({
  chain_id: z.string(),
  /** Number of events in the chain. */
  length: z.number().int(),
  /** Number of newest events whose hashes and links were verified for this response. */
  verified: z.number().int(),
  /** True if the verified events and the listed events are unaltered. */
  ok: z.boolean(),
});
named('ChainIntegrity', chain);
export type ChainIntegrity = z.output<typeof chain>;

const chainExample = { chain_id: 'policies:default', length: 12, verified: 12, ok: true };
const eventExample = {
  ...sealedExample,
  chain_id: chainExample.chain_id,
  data: { by: 'dana', policy_id: 'refunds' },
  type: 'policy.published',
};

export const listAudit = operation({
  ...shared,
  id: 'listAudit',
  method: 'GET',
  path: '/v1/audit',
  summary: 'List the audit trail, with the integrity of its chains',
  description: `${trail} Oldest first, paged like events. For each chain with an event on this page, \`chains\` states whether its newest events are unaltered; \`/v1/evidence/verify\` verifies the whole ledger.`,
  permission: 'evidence.read',
  query: auditQuery,
  success: {
    status: 200,
    description: 'A page of events; `next_cursor` is null if no events follow at the moment.',
    schema: z.object({
      events: z.array(sealedEvent),
      chains: z.array(chain),
      next_cursor: z.string().nullable(),
    }),
    example: { events: [eventExample], chains: [chainExample], next_cursor: null },
  },
  errors: ['request.invalid', 'args.ambiguous', 'evidence.cursor_invalid'],
});

const exportQuery = z
  .object({ ...evidenceFilters, format: z.enum(auditFormats).default('json') })
  .refine(isInOrder, order);
export type AuditExportQuery = z.output<typeof exportQuery>;

export const exportAudit = operation({
  ...shared,
  id: 'exportAudit',
  method: 'GET',
  path: '/v1/audit/export',
  summary: 'Export the audit trail as a signed file',
  description: `${trail} Signed with the tenant's ES256 report key (\`/v1/evidence/jwks\`): JSON contains a detached JWS over its JCS form without \`signature\`; CSV and Markdown end with a signed statement over all preceding bytes. An export has at most 10,000 events; use filters for larger trails. Each export is recorded as \`audit.exported\`.`,
  permission: 'evidence.export',
  query: exportQuery,
  success: {
    status: 200,
    description: 'The signed object, or with `format=csv` or `md` a list in that format.',
    contentType: 'application/json; charset=utf-8',
    otherContentTypes: ['text/csv', 'text/markdown'],
    schema: z.object({
      type: z.literal('audit-trail'),
      tenant: z.string(),
      created_at: z.string(),
      filters: z.record(z.string(), z.string()),
      events: z.array(sealedEvent.omit({ cursor: true })),
      chains: z.array(chain),
      signature: z.object({
        alg: z.literal('ES256'),
        kid: z.string(),
        payload_sha256: z.string(),
        jws: z.string(),
      }),
    }),
    example: {
      type: 'audit-trail',
      tenant: 'acme',
      created_at: '2026-07-01T09:00:00.000Z',
      filters: {},
      events: [(({ cursor: _cursor, ...event }) => event)(eventExample)],
      chains: [chainExample],
      signature: {
        alg: 'ES256',
        kid: 'oKIywvGUpTVTyxMQ3bwIIeQUudfr_CkLMjCE19ECD-U',
        payload_sha256: `sha256:${'4'.repeat(64)}`,
        jws: 'eyJhbGciOiJFUzI1NiIsIi4uLiI6Ii4uLiJ9..c2lnbmF0dXJl',
      },
    },
  },
  errors: [
    'request.invalid',
    'args.ambiguous',
    'evidence.export_too_large',
    'evidence.seal_failed',
    'report.signing_unavailable',
  ],
});
