import { z } from 'zod';

/** What the install of a tenant's webhook holds, encrypted. */
export interface WebhookSettings {
  readonly url: string;
  readonly secret: string;
  /** The secret before, which signs as well until then. */
  readonly previous?: { readonly secret: string; readonly untilMs: number } | undefined;
  /** Whether it keeps every checkpoint of the ledger, as an anchor outside. */
  readonly checkpoints?: boolean | undefined;
}

const form = z.object({
  url: z.string(),
  secret: z.string(),
  previous: z.object({ secret: z.string(), untilMs: z.number() }).optional(),
  checkpoints: z.boolean().optional(),
});

/** Its errors say nothing of the cause: a parser quotes the text that it cannot read. */
export function readWebhookSettings(text: string): WebhookSettings {
  try {
    return form.parse(JSON.parse(text));
  } catch {
    throw new Error('the settings of the webhook cannot be read');
  }
}

/** The secrets that sign at a time, the current one first. */
export function secretsAt({ secret, previous }: WebhookSettings, nowMs: number): readonly string[] {
  return previous !== undefined && nowMs < previous.untilMs ? [secret, previous.secret] : [secret];
}
