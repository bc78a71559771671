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
  summary: 'What was kept of the arguments of a call',
  permission: 'evidence.read',
  params: eventParam,
  success: {
    status: 200,
    description: 'The arguments as redaction left them.',
    schema: z.object({
      event_id: z.string(),
      arguments: jsonObject,
      /** Whether they are those whose salted digest was sealed into the event. */
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
  summary: 'Forget the arguments of one call',
  description:
    'The salt of the event goes, and what was kept of its arguments: its digests cannot be confirmed any more, by anybody. The event itself stays, and the ledger verifies as before. Again changes nothing.',
  permission: 'settings.write',
  params: eventParam,
  success: {
    status: 200,
    description: 'When they were erased.',
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
  summary: 'Forget the arguments of all calls made for a user, or by an agent',
  description:
    'Names one of `user_id` and `agent_id`. For a user, what humans were shown in requests that are settled goes as well, and the e-mail address in the directory. Sealed as `privacy.erased`, which names a keyed hash of whom it was about.',
  permission: 'settings.write',
  body: z
    .strictObject({
      user_id: userId.optional(),
      agent_id: agentId.optional(),
      /** Why, for the ledger: name no person in it. */
      reason: name(500).optional(),
    })
    .refine(({ user_id, agent_id }) => (user_id === undefined) !== (agent_id === undefined), {
      message: 'user_id or agent_id: exactly one of them',
    })
    .meta({ oneOf: [{ required: ['user_id'] }, { required: ['agent_id'] }] }),
  bodyExample: { user_id: 'user_12', reason: 'request of 2026-07-01' },
  success: {
    status: 200,
    description: 'What was erased; `complete` is false where there is more: send it again.',
    schema: z.object({
      /** Calls whose salt, and arguments if kept, are gone. */
      events: z.number().int(),
      /** Settled requests for approval that show no arguments any more. */
      approvals: z.number().int(),
      complete: z.boolean(),
    }),
    example: { events: 812, approvals: 3, complete: true },
  },
  errors: ['args.schema_invalid'],
  accessExample: 'own-name',
});
