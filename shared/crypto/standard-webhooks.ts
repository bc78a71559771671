import { Webhook } from 'standardwebhooks';

/** The headers that authenticate a webhook's body (Standard Webhooks 1.0.0, symmetric `v1`). */
export interface WebhookHeaders {
  readonly 'webhook-id': string;
  readonly 'webhook-timestamp': string;
  readonly 'webhook-signature': string;
}

interface WebhookMessage {
  /** The same for all attempts, so that receivers can detect duplicates. */
  readonly id: string;
  /** The time of this attempt; receivers refuse messages that are minutes old. */
  readonly atMs: number;
  readonly body: string;
}

const prefix = 'whsec_';

/**
 * Signs a message with each of the secrets (`whsec_` and base64 of 24 to 64 bytes). During a
 * rotation, receivers with either secret accept the message. Throws if a secret is invalid.
 */
export function webhookHeaders(
  { id, atMs, body }: WebhookMessage,
  secrets: readonly string[],
): WebhookHeaders {
  const at = new Date(atMs);
  const signatures = secrets.map((secret) => signerOf(secret).sign(id, at, body));
  return {
    'webhook-id': id,
    'webhook-timestamp': String(Math.floor(atMs / 1000)),
    'webhook-signature': signatures.join(' '),
  };
}

/** Formats a secret for the receiver. */
export function webhookSecret(bytes: Uint8Array): string {
  return `${prefix}${Buffer.from(bytes).toString('base64')}`;
}

/**
 * Checks the key's length, because the library accepts any length, but the standard requires 24 to
 * 64 bytes.
 */
function signerOf(secret: string): Webhook {
  const key = Buffer.from(secret.slice(prefix.length), 'base64');
  if (!secret.startsWith(prefix) || key.length < 24 || key.length > 64) {
    throw new Error('a webhook secret must be whsec_ and the base64 of 24 to 64 bytes');
  }
  return new Webhook(key, { format: 'raw' });
}
