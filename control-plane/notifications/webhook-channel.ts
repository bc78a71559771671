import { webhookHeaders } from '../../shared/crypto/standard-webhooks.ts';
import type { Guard } from '../../shared/upstream/address-guard.ts';
import { guardedPost } from '../platform/outbound/guarded-post.ts';
import { readWebhookSettings, secretsAt } from '../platform/outbound/webhook-settings.ts';
import type { Channel, SendResult } from './channel.ts';
import { retryAfterMs } from './schedule.ts';

/** Returns a channel that sends to a tenant's webhook in the Standard Webhooks format. */
export function webhookChannel(
  guard: Guard,
  { timeoutMs = 15_000 }: { readonly timeoutMs?: number } = {},
): Channel {
  return {
    name: 'webhook',
    async send({ id, atMs, body }, text) {
      try {
        const settings = readWebhookSettings(text);
        const { status, headers } = await guardedPost({
          url: settings.url,
          headers: {
            'content-type': 'application/json',
            'user-agent': 'sallyport',
            ...webhookHeaders({ id, atMs, body }, secretsAt(settings, atMs)),
          },
          body,
          guard,
          timeoutMs,
        });
        return resultOf(status, retryAfterMs(headers['retry-after'], atMs));
      } catch (error) {
        return { outcome: 'failed', error: (error as Error).message };
      }
    },
  };
}

/**
 * Converts a status to a result. Only 2xx is success. Redirects are not followed, because they
 * indicate a misconfigured receiver.
 */
function resultOf(status: number, waitMs: number | undefined): SendResult {
  if (status >= 200 && status < 300) return { outcome: 'delivered', status };
  const error = `the receiver answered ${status}`;
  if (status === 410) return { outcome: 'gone', status, error };
  return { outcome: 'failed', status, error, retryAfterMs: waitMs };
}
