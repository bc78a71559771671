import type { SealedEventRecord } from '../../../shared/contract/evidence/evidence.ts';

/** One event as a server-sent message; its id is where reading resumes. JSON holds no line ends. */
export function eventMessage(event: SealedEventRecord): string {
  return `id: ${event.cursor}\nevent: evidence\ndata: ${JSON.stringify(event)}\n\n`;
}

/** How soon to come back to a stream that ended, in milliseconds. */
export const retryLine = 'retry: 1000\n';

/**
 * Says that the stream is alive, and how far it looked: an `id` without data is remembered and
 * makes no message (HTML, 9.2.6), so that a client whose filter is rare does not resume from long ago.
 */
export function aliveComment(cursor: string): string {
  return `: alive\nid: ${cursor}\n\n`;
}
