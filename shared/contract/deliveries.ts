import { z } from 'zod';
import { name, text } from './base/fields.ts';
import { named, statedAs } from './base/json-schema.ts';
import { operation } from './base/operation.ts';
import { pageLimit } from './base/schemas.ts';

const deliveryStatus = z.enum(['pending', 'delivered', 'dead']);
const deliveryId = name(64);

const delivery = z.object({
  id: z.string(),
  channel: z.string(),
  type: z.string(),
  subject: z.string(),
  status: deliveryStatus,
  attempts: z.number().int(),
  replays: z.number().int(),
  last_status: z.number().int().optional(),
  last_error: z.string().optional(),
  next_attempt_at: z.string().optional(),
  created_at: z.string(),
  delivered_at: z.string().optional(),
  dead_at: z.string().optional(),
});

const channelHealth = z.object({
  channel: z.string(),
  active: z.boolean(),
  pending: z.number().int(),
  delivered: z.number().int(),
  dead: z.number().int(),
});

const messageExample = 'msg_019a3f6c2b7e7c1f8a5d3e2f1a0b9c8d';
const common = { tag: 'Integrations', auth: 'bearer' } as const;

export const listDeliveries = operation({
  ...common,
  id: 'listDeliveries',
  method: 'GET',
  path: '/v1/integrations/deliveries',
  summary: 'List outbound deliveries, newest first, with counts for each channel',
  description:
    'Payloads are not shown. A delivery is `dead` after ten attempts, or if its receiver was removed or answered 410.',
  permission: 'read',
  query: z.object({
    status: deliveryStatus.optional(),
    limit: pageLimit,
    /** `next_cursor` of the previous page. */
    cursor: deliveryId.optional(),
  }),
  success: {
    status: 200,
    description: 'One page of deliveries, and counts for each channel.',
    schema: z.object({
      deliveries: z.array(delivery),
      channels: z.array(channelHealth),
      next_cursor: z.string().nullable(),
    }),
    example: {
      deliveries: [
        {
          id: messageExample,
          channel: 'webhook',
          type: 'approval.requested',
          subject: 'approval:42',
          status: 'pending',
          attempts: 1,
          replays: 0,
          last_status: 503,
          last_error: 'the receiver answered 503',
          next_attempt_at: '2026-11-20T10:00:05.000Z',
          created_at: '2026-11-20T10:00:00.000Z',
        },
      ],
      channels: [{ channel: 'webhook', active: true, pending: 1, delivered: 12, dead: 0 }],
      next_cursor: null,
    },
  },
  errors: [],
});

export const drainDeliveries = operation({
  ...common,
  id: 'drainDeliveries',
  method: 'POST',
  path: '/v1/integrations/deliveries/drain',
  summary: 'Attempt due deliveries now, and optionally replay a dead one',
  permission: 'delivery.drain',
  body: z
    .strictObject({
      /** The dead-lettered delivery to attempt again. */
      replay_id: deliveryId.optional(),
    })
    .optional(),
  bodyExample: {},
  success: {
    status: 200,
    description: 'The results of the attempts.',
    schema: z.object({
      attempted: z.number().int(),
      delivered: z.number().int(),
      rescheduled: z.number().int(),
      dead_lettered: z.number().int(),
      replayed: z.string().optional(),
    }),
    example: { attempted: 3, delivered: 2, rescheduled: 1, dead_lettered: 0 },
  },
  errors: ['delivery.not_found', 'delivery.not_dead'],
});

const webhook = z.object({
  channel: z.literal('webhook'),
  /** The host of the URL; the rest is not shown. */
  host: z.string(),
  /** Whether the webhook receives every checkpoint of the ledger. */
  checkpoints: z.boolean(),
  status: z.enum(['active', 'disabled']),
  created_by: z.string(),
  updated_at: z.string(),
  /** Time until which messages are also signed with the previous secret. */
  previous_secret_until: z.string().optional(),
});
named('Webhook', webhook);

const webhookExample = {
  channel: 'webhook',
  host: 'hooks.example.com',
  checkpoints: false,
  status: 'active',
  created_by: 'alice',
  updated_at: '2026-11-20T10:00:00.000Z',
} as const;

/**
 * A URL without user, password and fragment. The dialler decides later which addresses are allowed.
 */
const urlForm =
  '^https?://[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*)?([?][A-Za-z0-9._~=&-]*)?$';

export const putWebhook = operation({
  ...common,
  id: 'putWebhook',
  method: 'PUT',
  path: '/v1/integrations/webhook',
  summary: 'Set the webhook for approval notifications',
  description:
    'Messages follow Standard Webhooks; delivery is at least once, and `webhook-id` is the same for all attempts. The signing secret is shown once, in the response that creates it.',
  permission: 'settings.write',
  body: z.strictObject({
    url: statedAs(text(2048), { type: 'string', format: 'uri', maxLength: 2048, pattern: urlForm }),
    /**
     * Creates a new signing secret. For one day, messages are also signed with the previous secret.
     */
    rotate_secret: z.boolean().default(false),
    /**
     * Sends every checkpoint of the ledger (`evidence.checkpoint`), as an external anchor. Default:
     * unchanged.
     */
    checkpoints: z.boolean().optional(),
  }),
  bodyExample: { url: 'https://hooks.example.com/sallyport' },
  success: {
    status: 200,
    description: 'The webhook receives notifications from now on.',
    schema: webhook.extend({ secret: z.string().optional() }),
    example: { ...webhookExample, secret: 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD' },
  },
  errors: ['args.schema_invalid', 'plan.cap_reached'],
});

export const getWebhook = operation({
  ...common,
  id: 'getWebhook',
  method: 'GET',
  path: '/v1/integrations/webhook',
  summary: 'Get the webhook for approval notifications, without its secret',
  permission: 'read',
  success: { status: 200, description: 'The webhook.', schema: webhook, example: webhookExample },
  errors: ['integration.not_found'],
});

export const deleteWebhook = operation({
  ...common,
  id: 'deleteWebhook',
  method: 'DELETE',
  path: '/v1/integrations/webhook',
  summary: 'Remove the webhook; its pending deliveries become dead letters',
  permission: 'settings.write',
  success: {
    status: 200,
    description: 'The webhook is removed.',
    schema: z.object({ channel: z.literal('webhook'), deleted: z.literal(true) }),
    example: { channel: 'webhook', deleted: true },
  },
  errors: ['integration.not_found'],
});
