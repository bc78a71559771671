import { z } from 'zod';
import { named } from '../base/json-schema.ts';
import { operation } from '../base/operation.ts';
import { dateTime } from '../base/schemas.ts';
import { evidenceCursor, evidenceFilters, isInOrder, sealedExample } from './evidence.ts';

const shared = { tag: 'Evidence', auth: 'bearer', permission: 'evidence.read' } as const;
const order = { path: ['from'], message: 'must not be after to' };

export const streamEvidence = operation({
  ...shared,
  id: 'streamEvidence',
  method: 'GET',
  path: '/v1/evidence/stream',
  summary: 'Stream sealed events',
  description:
    'Server-sent events in order of position, without gaps or repetitions. The stream starts after the event in the header `Last-Event-ID`, or else after `cursor`, or else at the current end of the ledger. A comment every 15 seconds keeps the stream alive; its `id` is a position up to which no more events follow. The stream ends if its API key becomes invalid or the server stops; then resume.',
  query: z
    .object({ ...evidenceFilters, cursor: evidenceCursor.optional() })
    .refine(isInOrder, order),
  success: {
    status: 200,
    description: 'Messages `evidence`: the event as JSON, its cursor as `id`.',
    contentType: 'text/event-stream',
    example: `id: ${sealedExample.cursor}\nevent: evidence\ndata: ${JSON.stringify(sealedExample)}\n\n`,
  },
  errors: ['request.invalid', 'args.ambiguous', 'evidence.cursor_invalid', 'evidence.stream_full'],
});

const count = z.number().int();
/** The day (UTC), agent or tool; null for events without one. */
const key = z.string().nullable();
const latency = count.nullable();

const stats = z.object({
  group_by: z.enum(['day', 'agent', 'tool']),
  totals: z.array(z.object({ key, events: count, decisions: count })),
  decision_counts: z.array(z.object({ key, decision: z.string(), count })),
  top_deny_reasons: z.array(z.object({ reason_code: z.string(), count })),
  approval_latency_ms: z.object({
    count,
    p50: latency,
    p90: latency,
    p95: latency,
    p99: latency,
  }),
});
named('EvidenceStats', stats);
export type EvidenceStats = z.output<typeof stats>;

const statsQuery = z
  .object({
    group_by: z.enum(['day', 'agent', 'tool']).default('day'),
    from: dateTime.optional(),
    to: dateTime.optional(),
  })
  .refine(isInOrder, order);
export type StatsQuery = z.output<typeof statsQuery>;

export const evidenceStats = operation({
  ...shared,
  id: 'evidenceStats',
  method: 'GET',
  path: '/v1/evidence/stats',
  summary: 'Statistics of the ledger',
  description:
    'Counts sealed events by the day on which they occurred, in UTC, by agent or by tool: the newest 1000 days, or the 1000 groups with the most events. Decisions are events of type `decision`. The ten most frequent denial reasons cover all groups. Approval latency is the time from the request to the final decision, for approvals decided in the requested period. The result is deterministic.',
  query: statsQuery,
  success: {
    status: 200,
    description: 'Days ascending; agents and tools by descending number of events.',
    schema: stats,
    example: {
      group_by: 'day',
      totals: [{ key: '2026-07-01', events: 42, decisions: 31 }],
      decision_counts: [
        { key: '2026-07-01', decision: 'allow', count: 29 },
        { key: '2026-07-01', decision: 'deny', count: 2 },
      ],
      top_deny_reasons: [{ reason_code: 'refund.out_of_policy', count: 2 }],
      approval_latency_ms: { count: 3, p50: 41_000, p90: 260_000, p95: 260_000, p99: 260_000 },
    },
  },
  errors: ['request.invalid', 'args.ambiguous'],
});
