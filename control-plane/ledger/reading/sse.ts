import type { SealedEventRecord } from '../../../shared/contract/evidence/evidence.ts';

/**
 * Formats an event as a server-sent message. The id of the message is the position to resume from.
 * JSON contains no line breaks.
 */
export function eventMessage(event: SealedEventRecord): string {
  return `id: ${event.cursor}\nevent: evidence\ndata: ${JSON.stringify(event)}\n\n`;
}

/** Delay after which a client reconnects, in milliseconds. */
export const retryLine = 'retry: 1000\n';

/**
 * Formats a message that keeps the stream alive and gives the client the position that was read.
 * Clients remember an `id` without data and fire no event (HTML, 9.2.6), so a client whose filter
 * rarely matches does not resume from an old position.
 */
export function aliveComment(cursor: string): string {
  return `: alive\nid: ${cursor}\n\n`;
}
