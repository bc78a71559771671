import { z } from 'zod';
import { agentId, jsonObject, name, text, userId } from './base/fields.ts';
import { isStorableTime } from './base/schemas.ts';

/** No record of a spool is longer. */
export const spoolRecordMax = 1_048_576;

const event = z.strictObject({
  id: z.string().regex(/^ev_[0-9a-f]{32}$/),
  type: name(64),
  chain_id: name(128),
  occurred_at: z.iso.datetime({ precision: 3 }).refine(isStorableTime),
  source: name(128),
  agent_id: agentId.optional(),
  user_id: userId.optional(),
  // Whatever the agent called.
  tool: text(spoolRecordMax).optional(),
  resource: text(spoolRecordMax).optional(),
  decision: name(64).optional(),
  reason_code: name(256).optional(),
  data: jsonObject,
});

/**
 * What a line of a sidecar's spool holds: an event, what the digest of its arguments is keyed with
 * (base64), and the arguments redacted, where the tenant keeps them.
 */
export const spoolRecord = z.strictObject({
  event,
  salt: z.string().max(128).optional(),
  args: jsonObject.optional(),
});
