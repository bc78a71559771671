import { z } from 'zod';

/** Settings of a tenant's webhook. They are stored encrypted. */
export interface WebhookSettings {
  readonly url: string;
  readonly secret: string;
  /** The previous secret, which is also used to sign until `untilMs`. */
  readonly previous?: { readonly secret: string; readonly untilMs: number } | undefined;
  /** True if the webhook receives every checkpoint, as an external anchor. */
  readonly checkpoints?: boolean | undefined;
}

const form = z.object({
  url: z.string(),
  secret: z.string(),
  previous: z.object({ secret: z.string(), untilMs: z.number() }).optional(),
  checkpoints: z.boolean().optional(),
});

/**
 * Parses stored settings. The error omits its cause, because a parser quotes the text that it
 * cannot parse.
 */
export function readWebhookSettings(text: string): WebhookSettings {
  try {
    return form.parse(JSON.parse(text));
  } catch {
    throw new Error('the settings of the webhook cannot be read');
  }
}

/** Returns the secrets with which a message of this time is signed, the current one first. */
export function secretsAt({ secret, previous }: WebhookSettings, nowMs: number): readonly string[] {
  return previous !== undefined && nowMs < previous.untilMs ? [secret, previous.secret] : [secret];
}
