/** What a channel is told to carry. */
export interface OutboundMessage {
  /** Stable over attempts and replicas; receivers tell duplicates by it. */
  readonly id: string;
  /** When this attempt is made, in ms since the epoch. */
  readonly atMs: number;
  /** JSON text: `{type, timestamp, data}`. */
  readonly body: string;
}

export type SendResult =
  | { readonly outcome: 'delivered'; readonly status?: number | undefined }
  /** Worth trying again, by the schedule or when the receiver says. */
  | {
      readonly outcome: 'failed';
      readonly error: string;
      readonly status?: number | undefined;
      readonly retryAfterMs?: number | undefined;
    }
  /** The receiver wants no more of this channel, ever. */
  | { readonly outcome: 'gone'; readonly error: string; readonly status?: number | undefined };

/**
 * One way out of the gateway. `settings` is what the tenant's install of the channel holds, opened
 * from the vault. Never rejects: whatever goes wrong is a result that names no secret.
 */
export interface Channel {
  readonly name: string;
  send(message: OutboundMessage, settings: string): Promise<SendResult>;
}
