import { z } from 'zod';
import { recordedDecisions } from '../../ledger/recorded-decisions.ts';
import { problemKinds, type VerificationReport } from '../../ledger/verification/problem.ts';
import { agentId, jsonObject, name, toolId } from '../base/fields.ts';
import { named } from '../base/json-schema.ts';
import { operation } from '../base/operation.ts';
import { dateTime, pageLimit } from '../base/schemas.ts';

const shared = { tag: 'Evidence', auth: 'bearer' } as const;

/**
 * A sealed event with its hashes. The event hash covers the JCS form of the event without
 * `prev_hash` and the members after it.
 */
export const sealedEvent = z.looseObject({
  id: z.string(),
  type: z.string(),
  tenant: z.string(),
  chain_id: z.string(),
  position: z.number().int(),
  seq: z.number().int(),
  occurred_at: z.string(),
  source: z.string(),
  data: jsonObject,
  prev_hash: z.string(),
  event_hash: z.string(),
  /** When the event was sealed; absent in the response to the request that seals it. */
  sealed_at: z.string().optional(),
  /** Cursor of this event; a read with this cursor resumes strictly after the event. */
  cursor: z.string(),
});
named('EvidenceEvent', sealedEvent);
export type SealedEventRecord = z.output<typeof sealedEvent>;

const filterText = name(512);

/** Filters of events, stream and exports. All given filters must match. */
export const evidenceFilters = {
  chain_id: filterText.optional(),
  agent_id: filterText.optional(),
  tool: filterText.optional(),
  /** Unknown words are refused, because an empty result would look as if nothing had happened. */
  decision: z.enum(recordedDecisions, `must be one of ${recordedDecisions.join(', ')}`).optional(),
  reason_code: filterText.optional(),
  type: filterText.optional(),
  /** Events that occurred at this time or later. */
  from: dateTime.optional(),
  /** Events that occurred at this time or earlier. */
  to: dateTime.optional(),
};

export const evidenceCursor = z.string().max(100);

export function isInOrder({
  from,
  to,
}: {
  readonly from?: string | undefined;
  readonly to?: string | undefined;
}) {
  return from === undefined || to === undefined || Date.parse(from) <= Date.parse(to);
}

const listQuery = z
  .object({
    ...evidenceFilters,
    cursor: evidenceCursor.optional(),
    limit: pageLimit,
  })
  .refine(isInOrder, { path: ['from'], message: 'must not be after to' });
export type EvidenceQuery = z.output<typeof listQuery>;

/** The requested filters; all must match. */
export type EvidenceFilters = Omit<EvidenceQuery, 'cursor' | 'limit'>;

export const sealedExample = {
  agent_id: '7',
  chain_id: 'agent:7',
  data: { args: { amount: 'number' } },
  decision: 'allow',
  id: 'ev_0198c6a8a6f07cc3a4f2b7d7f4f0a1b2',
  occurred_at: '2026-07-01T09:00:00.000Z',
  position: 42,
  reason_code: 'refund.small_in_scope',
  seq: 17,
  source: 'control-plane',
  tenant: 'acme',
  tool: 'mcp.payments.refund',
  type: 'decision',
  prev_hash: `sha256:${'1'.repeat(64)}`,
  event_hash: `sha256:${'2'.repeat(64)}`,
  sealed_at: '2026-07-01T09:00:00.004Z',
  cursor: 'AAAAAAAAACoAAAAAAAAAEQECAwQFBgcICQoLDA0ODxAREhM',
};

export const listEvidenceEvents = operation({
  ...shared,
  id: 'listEvidenceEvents',
  method: 'GET',
  path: '/v1/evidence/events',
  summary: 'Sealed events, oldest first',
  description:
    'Events are sorted by position, which is the order of commit. Paging by cursor never skips or repeats an event, even if others are sealed meanwhile.',
  permission: 'evidence.read',
  query: listQuery,
  success: {
    status: 200,
    description: 'A page of events; `next_cursor` is null if no events follow at the moment.',
    schema: z.object({ events: z.array(sealedEvent), next_cursor: z.string().nullable() }),
    example: { events: [sealedExample], next_cursor: null },
  },
  errors: ['request.invalid', 'args.ambiguous', 'evidence.cursor_invalid'],
});

export const appendEvidenceEvent = operation({
  ...shared,
  id: 'appendEvidenceEvent',
  method: 'POST',
  path: '/v1/evidence/events',
  summary: 'Seal a custom event',
  permission: 'evidence.write',
  body: z.strictObject({
    type: z.string().regex(/^custom\.[a-z0-9][a-z0-9._-]{0,99}$/, 'must be custom.<name>'),
    /** Default: the agent’s chain, or else `custom:events`. */
    chain_id: name(200).optional(),
    agent_id: agentId.optional(),
    tool: toolId.optional(),
    data: jsonObject,
  }),
  bodyExample: { type: 'custom.ticket_closed', agent_id: '7', data: { ticket: 'T-81' } },
  success: {
    status: 200,
    description: 'The event with its position in ledger and chain.',
    schema: sealedEvent,
    example: sealedExample,
  },
  errors: [
    'args.schema_invalid',
    'evidence.event_invalid',
    'evidence.seal_failed',
    'agent.mismatch',
  ],
});

const problem = z.object({
  kind: z.enum(problemKinds),
  position: z.number().int(),
  chain_id: z.string().nullable(),
  message: z.string(),
});
named('VerificationProblem', problem);

export const verificationReport = z.object({
  ok: z.boolean(),
  events: z.number().int(),
  chains: z.number().int(),
  heads: z.number().int(),
  checkpoints: z.number().int(),
  signatures: z.number().int(),
  position: z.number().int(),
  tree_root: z.string(),
  problem: problem.nullable(),
  problems: z.array(problem).readonly(),
}) satisfies z.ZodType<VerificationReport>;
named('VerificationReport', verificationReport);

export const verificationExample = {
  ok: true,
  events: 42,
  chains: 3,
  heads: 40,
  checkpoints: 2,
  signatures: 40,
  position: 42,
  tree_root: `sha256:${'3'.repeat(64)}`,
  problem: null,
  problems: [],
};

export const verifyEvidence = operation({
  ...shared,
  id: 'verifyEvidence',
  method: 'GET',
  path: '/v1/evidence/verify',
  summary: 'Verify the whole ledger',
  description:
    'Recomputes every hash from the sealed texts and compares links, order, ends and signed tree roots. A failure is also sealed as the event `chain_verification_failed`.',
  permission: 'evidence.read',
  success: {
    status: 200,
    description: 'The verification report, with the problems found.',
    schema: verificationReport,
    example: verificationExample,
  },
  errors: [],
});
