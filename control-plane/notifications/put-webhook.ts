import { randomBytes } from 'node:crypto';
import { isAddress } from '../../shared/base/host.ts';
import { newId } from '../../shared/base/ids.ts';
import { webhookSecret } from '../../shared/crypto/standard-webhooks.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { addressRules } from '../../shared/upstream/address-rules.ts';
import { commitChange } from '../core/commit-change.ts';
import { assertWithinPlan } from '../core/plan.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { installPlace } from '../platform/outbound/enqueue.ts';
import {
  readWebhookSettings,
  type WebhookSettings,
} from '../platform/outbound/webhook-settings.ts';
import type { Install } from '../platform/store/generated/client.ts';
import { lockFor } from '../platform/store/transaction.ts';

const channel = 'webhook';

/** After a rotation, messages are also signed with the previous secret for this long. */
const overlapMs = 86_400_000;

interface StoredWebhook {
  readonly install: Install;
  readonly settings: WebhookSettings;
  /** Set if this call created a secret. Only this response shows the secret. */
  readonly secret: string | undefined;
}

interface Wanted {
  readonly url: string;
  readonly rotateSecret: boolean;
  /** Undefined: keeps the current setting. */
  readonly checkpoints: boolean | undefined;
}

/** Sets or changes the tenant's webhook, and enables it again if it was disabled. */
export async function putWebhook(
  services: Services,
  { tenantId, principal }: Caller,
  { url, rotateSecret, checkpoints }: Wanted,
): Promise<StoredWebhook> {
  const { clock, vault, config } = services;
  const target = webhookUrl(url, config.allowPrivate);
  const { result } = await commitChange(services, tenantId, async (tx, notes) => {
    await lockFor(tx, tenantId, `install ${channel}`);
    await assertWithinPlan(notes, tenantId, { feature: 'integrations', present: 0 });
    const where = { tenantId_channel: { tenantId, channel } };
    const found = await tx.install.findUnique({ where });
    const before = found === null ? undefined : openSettings(services, found);
    const isNew = before === undefined || rotateSecret;
    const settings = {
      ...nextSettings(before, { url: target, isNew, nowMs: clock.now() }),
      checkpoints: checkpoints ?? before?.checkpoints ?? false,
    };
    const sealed = vault.seal(JSON.stringify(settings), installPlace(tenantId, channel));
    const install = await tx.install.upsert({
      where,
      create: {
        id: newId('in', clock.now()),
        tenantId,
        channel,
        sealed,
        createdBy: principal,
      },
      update: { sealed, status: 'active', updatedAt: new Date(clock.now()) },
    });
    await notes.event({
      type: 'integration.installed',
      chainId: `integration:${channel}`,
      data: {
        by: principal,
        channel,
        host: new URL(target).host,
        secret_rotated: isNew,
        checkpoints: settings.checkpoints,
      },
    });
    return { install, settings, secret: isNew ? settings.secret : undefined };
  });
  return result;
}

function nextSettings(
  before: WebhookSettings | undefined,
  { url, isNew, nowMs }: { readonly url: string; readonly isNew: boolean; readonly nowMs: number },
): WebhookSettings {
  if (before === undefined) return { url, secret: webhookSecret(randomBytes(32)) };
  if (!isNew) return { ...before, url };
  const previous = { secret: before.secret, untilMs: nowMs + overlapMs };
  return { url, secret: webhookSecret(randomBytes(32)), previous };
}

export async function getWebhook(
  services: Services,
  { tenantId }: Caller,
): Promise<Omit<StoredWebhook, 'secret'>> {
  const where = { tenantId_channel: { tenantId, channel } };
  const install = await services.db.install.findUnique({ where });
  if (install === null) throw new GatewayError('integration.not_found');
  return { install, settings: openSettings(services, install) };
}

/** Removes the webhook. Waiting deliveries become dead letters. */
export async function deleteWebhook(
  services: Services,
  { tenantId, principal }: Caller,
): Promise<void> {
  await commitChange(services, tenantId, async (tx, notes) => {
    const { count } = await tx.install.deleteMany({ where: { tenantId, channel } });
    if (count === 0) throw new GatewayError('integration.not_found');
    await notes.event({
      type: 'integration.removed',
      chainId: `integration:${channel}`,
      data: { by: principal, channel },
    });
  });
}

function openSettings(
  { vault }: Pick<Services, 'vault'>,
  { tenantId, sealed }: Install,
): WebhookSettings {
  if (sealed === null) throw new Error('the webhook has no settings');
  return readWebhookSettings(vault.open(sealed, installPlace(tenantId, channel)).toString('utf8'));
}

/**
 * Validates a receiver's URL: https, or http to a literal private address that the operator allows.
 * Literal addresses are checked here, resolved ones at connection time.
 */
function webhookUrl(text: string, allowPrivate: readonly string[]): string {
  const url = URL.parse(text);
  if (url === null || (url.protocol !== 'https:' && url.protocol !== 'http:')) {
    refuse('must be an https URL');
  }
  if (url.username !== '' || url.password !== '') refuse('must not hold a user or password');
  if (url.hash !== '') refuse('must not hold a fragment');
  const host = url.hostname.replace(/^\[|\]$/g, '');
  if (!/^[a-z0-9.:_-]+$/.test(host))
    refuse('the host contains characters that are invalid in host names');
  const kind = isAddress(host) ? addressRules(allowPrivate).refusal(host) : undefined;
  if (kind !== undefined) refuse(`${host} is a ${kind} address`);
  if (url.protocol === 'http:' && !isPrivate(host)) {
    refuse('must be https, because messages must not be sent unencrypted');
  }
  return url.href;
}

function isPrivate(host: string): boolean {
  return isAddress(host) && addressRules([]).refusal(host) !== undefined;
}

function refuse(what: string): never {
  throw new GatewayError('args.schema_invalid', { message: `url: ${what}.` });
}
