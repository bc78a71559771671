import type { EventStore } from '@modelcontextprotocol/server';

/**
 * Stores a session's events, so that a stream can be resumed after the last event that the client received.
 */
export function eventStore(): EventStore {
  const events: { readonly stream: string; readonly message: never }[] = [];
  return {
    async storeEvent(stream, message) {
      events.push({ stream, message: message as never });
      return String(events.length - 1);
    },
    async getStreamIdForEventId(id) {
      return events[Number(id)]?.stream;
    },
    async replayEventsAfter(lastId, { send }) {
      const stream = events[Number(lastId)]?.stream ?? '';
      for (const [index, event] of events.entries()) {
        const isMissed = index > Number(lastId) && event.stream === stream;
        // An event without a message only marks the start of the stream.
        if (isMissed && Object.keys(event.message).length > 0)
          await send(String(index), event.message);
      }
      return stream;
    },
  };
}
