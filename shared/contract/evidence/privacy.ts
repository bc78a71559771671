import { z } from 'zod';
import { agentId, jsonObject, name, userId } from '../base/fields.ts';
import { operation } from '../base/operation.ts';
import { opaqueId } from '../base/schemas.ts';

const shared = { tag: 'Privacy', auth: 'bearer' } as const;

const eventParam = z.object({ id: opaqueId });

export const getEventArguments = operation({
  ...shared,
  id: 'getEventArguments',
  method: 'GET',
  path: '/v1/evidence/events/{id}/arguments',
  summary: 'Get the stored arguments of a call',
  permission: 'evidence.read',
  params: eventParam,
  success: {
    status: 200,
    description: 'The redacted arguments.',
    schema: z.object({
      event_id: z.string(),
      arguments: jsonObject,
      /** True if the arguments match the salted digest that was sealed in the event. */
      proven: z.boolean(),
    }),
    example: {
      event_id: 'ev_0198c6a8a6f07cc3a4f2b7d7f4f0a1b2',
      arguments: { amount: 12, note: 'write to [redacted:email]', token: '[redacted]' },
      proven: true,
    },
  },
  errors: [
    'evidence.event_not_found',
    'evidence.arguments_not_kept',
    'evidence.arguments_erased',
    'evidence.id_conflict',
  ],
});

export const eraseEventArguments = operation({
  ...shared,
  id: 'eraseEventArguments',
  method: 'DELETE',
  path: '/v1/evidence/events/{id}/arguments',
  summary: 'Erase the arguments of one call',
  description:
    'Deletes the event’s salt and stored arguments, so that nobody can confirm its digests. The event itself stays, and the ledger still verifies. Repeating the request changes nothing.',
  permission: 'settings.write',
  params: eventParam,
  success: {
    status: 200,
    description: 'The time of the erasure.',
    schema: z.object({ event_id: z.string(), erased_at: z.string() }),
    example: {
      event_id: 'ev_0198c6a8a6f07cc3a4f2b7d7f4f0a1b2',
      erased_at: '2026-07-01T09:00:00.000Z',
    },
  },
  errors: ['evidence.event_not_found', 'evidence.arguments_not_kept', 'evidence.id_conflict'],
});

export const erasePersonalData = operation({
  ...shared,
  id: 'erasePersonalData',
  method: 'POST',
  path: '/v1/privacy/erasures',
  summary: 'Erase the arguments of all calls for a user or by an agent',
  description:
    'Requires exactly one of `user_id` and `agent_id`. For a user, also erases the arguments shown in closed approvals, and the e-mail address in the directory. Recorded as the event `privacy.erased`, which contains only a keyed hash of the subject.',
  permission: 'settings.write',
  body: z
    .strictObject({
      user_id: userId.optional(),
      agent_id: agentId.optional(),
      /** The reason recorded in the ledger. The text must not name a person. */
      reason: name(500).optional(),
    })
    .refine(({ user_id, agent_id }) => (user_id === undefined) !== (agent_id === undefined), {
      message: 'send exactly one of user_id and agent_id',
    })
    .meta({ oneOf: [{ required: ['user_id'] }, { required: ['agent_id'] }] }),
  bodyExample: { user_id: 'user_12', reason: 'request of 2026-07-01' },
  success: {
    status: 200,
    description: 'The erased data. If `complete` is false, more remains: send the request again.',
    schema: z.object({
      /** Number of calls whose salt and stored arguments were deleted. */
      events: z.number().int(),
      /** Number of closed approvals whose arguments were deleted. */
      approvals: z.number().int(),
      complete: z.boolean(),
    }),
    example: { events: 812, approvals: 3, complete: true },
  },
  errors: ['args.schema_invalid'],
  accessExample: 'own-name',
});
