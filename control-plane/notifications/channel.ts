/** A message to send through a channel. */
export interface OutboundMessage {
  /** Id that is the same for all attempts and replicas, so that receivers can detect duplicates. */
  readonly id: string;
  /** Time of this attempt, in ms since the epoch. */
  readonly atMs: number;
  /** JSON text: `{type, timestamp, data}`. */
  readonly body: string;
}

export type SendResult =
  | { readonly outcome: 'delivered'; readonly status?: number | undefined }
  /** The delivery is retried at the scheduled time, or at the time that the receiver requested. */
  | {
      readonly outcome: 'failed';
      readonly error: string;
      readonly status?: number | undefined;
      readonly retryAfterMs?: number | undefined;
    }
  /** The receiver permanently rejects messages of this channel. */
  | { readonly outcome: 'gone'; readonly error: string; readonly status?: number | undefined };

/**
 * An outbound channel. `settings` is the decrypted configuration of the tenant's installation.
 * `send` never rejects: it returns a failure as a result that contains no secret.
 */
export interface Channel {
  readonly name: string;
  send(message: OutboundMessage, settings: string): Promise<SendResult>;
}
