import type { SealedEventRecord } from '../../../shared/contract/evidence/evidence.ts';

/**
 * One event as a server-sent message; its id is the position to resume from. JSON contains no line
 * breaks.
 */
export function eventMessage(event: SealedEventRecord): string {
  return `id: ${event.cursor}\nevent: evidence\ndata: ${JSON.stringify(event)}\n\n`;
}

/** Reconnection delay of a client, in milliseconds. */
export const retryLine = 'retry: 1000\n';

/**
 * Keeps the stream alive and records the position read. Clients remember an `id` without data and
 * fire no event (HTML, 9.2.6), so a client with a rare filter does not resume from an old position.
 */
export function aliveComment(cursor: string): string {
  return `: alive\nid: ${cursor}\n\n`;
}
