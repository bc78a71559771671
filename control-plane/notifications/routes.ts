import * as contract from '../../shared/contract/deliveries.ts';
import type { Services } from '../core/services.ts';
import { type Route, route } from '../platform/http/route.ts';
import type { WebhookSettings } from '../platform/outbound/webhook-settings.ts';
import type { Install } from '../platform/store/generated/client.ts';
import type { Channel } from './channel.ts';
import { drainDeliveries, replayDelivery } from './drain-deliveries.ts';
import { deliveryRecord, listDeliveries } from './list-deliveries.ts';
import { deleteWebhook, getWebhook, putWebhook } from './put-webhook.ts';
import { webhookChannel } from './webhook-channel.ts';

/** Returns all channels. */
export function channelsOf({ upstream }: Pick<Services, 'upstream'>): readonly Channel[] {
  return [webhookChannel(upstream.guard)];
}

export function notifyRoutes(
  services: Services,
  channels: () => readonly Channel[] = () => channelsOf(services),
): Route[] {
  return [
    route(contract.listDeliveries, async ({ query }, caller) => {
      const { rows, nextCursor, channels } = await listDeliveries(services, caller, query);
      return { body: { deliveries: rows.map(deliveryRecord), channels, next_cursor: nextCursor } };
    }),
    route(contract.drainDeliveries, async ({ body }, caller) => {
      const id = body?.replay_id;
      if (id !== undefined) await replayDelivery(services, caller, id);
      const report = await drainDeliveries(services, caller, channels());
      return { body: { ...report, ...(id === undefined ? {} : { replayed: id }) } };
    }),
    route(contract.putWebhook, async ({ body }, caller) => {
      const { url, rotate_secret: rotateSecret, checkpoints } = body;
      const wanted = { url, rotateSecret, checkpoints };
      const { secret, ...stored } = await putWebhook(services, caller, wanted);
      return {
        headers: { 'cache-control': 'no-store' },
        body: { ...webhookRecord(stored), ...(secret === undefined ? {} : { secret }) },
      };
    }),
    route(contract.getWebhook, async (_input, caller) => ({
      body: webhookRecord(await getWebhook(services, caller)),
    })),
    route(contract.deleteWebhook, async (_input, caller) => {
      await deleteWebhook(services, caller);
      return { body: { channel: 'webhook' as const, deleted: true as const } };
    }),
  ];
}

/**
 * A webhook as the API shows it: only the URL's host, because path and query often contain a
 * secret.
 */
function webhookRecord({
  install,
  settings,
}: {
  readonly install: Install;
  readonly settings: WebhookSettings;
}) {
  const { previous } = settings;
  return {
    channel: 'webhook' as const,
    host: new URL(settings.url).host,
    checkpoints: settings.checkpoints ?? false,
    status: install.status === 'active' ? ('active' as const) : ('disabled' as const),
    created_by: install.createdBy,
    updated_at: install.updatedAt.toISOString(),
    previous_secret_until:
      previous === undefined ? undefined : new Date(previous.untilMs).toISOString(),
  };
}
