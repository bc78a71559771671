import { until } from '../base/until.ts';

export interface Message {
  readonly id: string;
  readonly event: string;
  readonly data: Record<string, unknown> & { readonly id: string; readonly position: number };
}

export interface Follower {
  readonly status: number;
  readonly headers: Headers;
  /** The messages received so far, in order. */
  readonly messages: Message[];
  /**
   * The last event id, as an event source would remember it: ids of events without data count, too.
   */
  readonly lastEventId: string;
  readonly comments: number;
  /** How the stream ended; undefined while it is open. */
  readonly end: 'ended' | 'broken' | undefined;
  /** Stops reading until it is resumed. */
  pause(): void;
  resume(): void;
  /** Waits until this many messages have arrived. */
  has(count: number, withinMs?: number): Promise<readonly Message[]>;
  ended(): Promise<'ended' | 'broken'>;
  close(): void;
}

interface FollowOptions {
  readonly key: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly lastEventId?: string;
}

/**
 * Follows `/v1/evidence/stream` as a client does. Verifies that all bytes have the form of an event
 * stream.
 */
export async function startFollower(
  origin: string,
  { key, query = {}, lastEventId }: FollowOptions,
): Promise<Follower> {
  const gone = new AbortController();
  const response = await fetch(`${origin}/api/v1/evidence/stream?${new URLSearchParams(query)}`, {
    headers: {
      authorization: `Bearer ${key}`,
      accept: 'text/event-stream',
      ...(lastEventId === undefined ? {} : { 'last-event-id': lastEventId }),
    },
    signal: gone.signal,
  });
  const messages: Message[] = [];
  const state = {
    lastEventId: '',
    comments: 0,
    end: undefined as Follower['end'],
    failure: undefined as unknown,
  };
  let paused: PromiseWithResolvers<void> | undefined;
  const read = async () => {
    if (response.body === null) throw new Error('no stream');
    let rest = '';
    for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
      const blocks = (rest + text).split('\n\n');
      rest = blocks.pop() ?? '';
      for (const block of blocks) takeBlock(block, state, messages);
      await paused?.promise;
    }
    if (rest !== '') throw new Error(`the stream ended within a message: ${rest}`);
  };
  const reading = read().then(
    () => 'ended' as const,
    (error: unknown) => {
      state.failure = error;
      return 'broken' as const;
    },
  );
  void reading.then((end) => {
    state.end = end;
  });
  return {
    status: response.status,
    headers: response.headers,
    messages,
    get lastEventId() {
      return state.lastEventId;
    },
    get comments() {
      return state.comments;
    },
    get end() {
      return state.end;
    },
    pause: () => {
      paused ??= Promise.withResolvers();
    },
    resume: () => {
      paused?.resolve();
      paused = undefined;
    },
    async has(count, withinMs = 20_000) {
      await until(() => messages.length >= count || state.end !== undefined, {
        withinMs,
        what: `${count} messages came`,
      });
      if (messages.length < count) throw new Error(`${state.end} after ${messages.length}`);
      return messages;
    },
    ended: () => reading,
    close: () => gone.abort(),
  };
}

function takeBlock(
  block: string,
  state: { lastEventId: string; comments: number },
  messages: Message[],
): void {
  const fields = new Map<string, string>();
  for (const line of block.split('\n')) {
    const [, name = '', value = ''] = /^([a-z]*): (.*)$/.exec(line) ?? [];
    if (name === '' && line.startsWith(':')) {
      state.comments += 1;
    } else if (!['id', 'event', 'data', 'retry'].includes(name) || fields.has(name)) {
      throw new Error(`not a line of an event stream: ${JSON.stringify(line)}`);
    } else fields.set(name, value);
  }
  const id = fields.get('id') ?? state.lastEventId;
  state.lastEventId = id;
  const data = fields.get('data');
  if (data !== undefined) {
    messages.push({ id, event: fields.get('event') ?? 'message', data: JSON.parse(data) });
  }
}
