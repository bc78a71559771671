import { z } from 'zod';
import { jsonObject } from '../../shared/contract/fields.ts';
import { operation } from '../../shared/contract/operation.ts';
import { dateTime } from '../../shared/contract/schemas.ts';

/** What `sallyport policy backtest` sends and reads. */
export const backtestPolicy = operation({
  id: 'backtestPolicy',
  method: 'POST',
  path: '/v1/policies/backtest',
  tag: 'Policies',
  summary: 'What a candidate policy would have changed in stored decisions',
  auth: 'bearer',
  permission: 'evidence.read',
  body: z.object({
    policy: jsonObject,
    beside: z.boolean().optional(),
    from: dateTime.optional(),
    to: dateTime.optional(),
    limit: z.number().int().optional(),
    cursor: z.string().optional(),
  }),
  success: {
    status: 200,
    description: 'What would have been decided otherwise.',
    schema: z.object({
      examined: z.number().int(),
      changed: z.number().int(),
      unknown: z.number().int(),
      not_by_policy: z.number().int(),
      counts: z.record(z.string(), z.number().int()),
      changes: z
        .array(
          z.object({
            event_id: z.string(),
            occurred_at: z.string(),
            tool: z.string(),
            agent_id: z.string(),
            old: z.string(),
            new: z.string(),
            old_reason_code: z.string(),
            reason_code: z.string().nullable(),
            matched_rules: z.array(z.string()).readonly(),
          }),
        )
        .readonly(),
      unknowns: z
        .array(
          z.object({
            event_id: z.string(),
            tool: z.string(),
            unsure_rules: z.array(z.string()).readonly(),
          }),
        )
        .readonly(),
      next_cursor: z.string().nullable(),
    }),
  },
  errors: [],
});
