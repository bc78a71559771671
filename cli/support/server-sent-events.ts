import { createParser, type ParseError } from 'eventsource-parser';

/** An event, or only an id after which reading can resume. */
export interface ServerSentEvent {
  readonly id?: string;
  readonly data?: string;
}

/** Parses an event stream (HTML, 9.2.6). Throws for an event that is longer than `charactersMax`. */
export async function* serverSentEvents(
  parts: AsyncIterable<Uint8Array>,
  { charactersMax }: { readonly charactersMax: number },
): AsyncGenerator<ServerSentEvent> {
  const decoder = new TextDecoder();
  const parsed: ServerSentEvent[] = [];
  const errors: ParseError[] = [];
  const parser = createParser({
    maxBufferSize: charactersMax,
    onId: (id) => parsed.push({ id }),
    onEvent: ({ data }) => parsed.push({ data }),
    onError: (error) => {
      if (error.type === 'max-buffer-size-exceeded') errors.push(error);
    },
  });
  for await (const part of parts) {
    parser.feed(decoder.decode(part, { stream: true }));
    yield* parsed.splice(0);
    const [error] = errors;
    if (error !== undefined) throw error;
  }
}
