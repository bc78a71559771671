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
  summary: 'Sealed events as they come',
  description:
    'Server-sent events in the order of their position, none twice and none left out: after the event that the header `Last-Event-ID` names (it wins), else after `cursor`, else from where the ledger ends now. A comment every 15 seconds says that the stream is alive, with an `id` up to which nothing more will come. It ends when the key that opened it does not hold any more, or the server goes: resume.',
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
/** The day (UTC), agent or tool; null: of events that have none. */
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
  summary: 'What the ledger holds, counted',
  description:
    'Counts sealed events by the day on which they occurred, in UTC, by agent or by tool: the newest 1000 days, or the 1000 with most events. Decisions are events of type `decision`. The ten most frequent reasons of denials are over all groups. Approval latency is from the request to the act that settled it, of approvals settled in the time asked for. The same ledger and query give the same answer.',
  query: statsQuery,
  success: {
    status: 200,
    description: 'Days ascending; agents and tools by how many events they have.',
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
