import { z } from 'zod';
import { agentId, jsonObject, name, text, userId } from './base/fields.ts';
import { isStorableTime } from './base/schemas.ts';

/** Maximum length of a spool record. */
export const spoolRecordMax = 1_048_576;

const event = z.strictObject({
  id: z.string().regex(/^ev_[0-9a-f]{32}$/),
  type: name(64),
  chain_id: name(128),
  occurred_at: z.iso.datetime({ precision: 3 }).refine(isStorableTime),
  source: name(128),
  agent_id: agentId.optional(),
  user_id: userId.optional(),
  // The agent chooses this text.
  tool: text(spoolRecordMax).optional(),
  resource: text(spoolRecordMax).optional(),
  decision: name(64).optional(),
  reason_code: name(256).optional(),
  data: jsonObject,
});

/**
 * A line of a sidecar's spool: an event, the salt of its arguments digest (base64), and the
 * redacted arguments if the tenant stores them.
 */
export const spoolRecord = z.strictObject({
  event,
  salt: z.string().max(128).optional(),
  args: jsonObject.optional(),
});
