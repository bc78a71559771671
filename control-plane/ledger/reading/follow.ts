import type { Platform } from '../../platform/platform.ts';
import { writeCursor } from './cursor.ts';
import { type EventFilter, passes, passesAll } from './event-filter.ts';
import { readEvents } from './list-events.ts';
import { headPosition } from './read-ledger.ts';
import { aliveComment, eventMessage, retryLine } from './sse.ts';
import type { Segment, TenantTail } from './tenant-tail.ts';

interface Following {
  readonly tenantId: string;
  readonly tail: TenantTail;
  readonly position: number;
  readonly filter: EventFilter;
  readonly signal: AbortSignal;
  readonly aliveMs: number;
  readonly permittedMs: number;
  isStillPermitted(): Promise<boolean>;
}

type Deps = Pick<Platform, 'pool' | 'vault'>;

/** Consecutive rows of the ledger as one follower receives them. */
interface Stretch {
  readonly chunk: string | Uint8Array;
  readonly upTo: number;
}

const pageRows = 200;
/** The size is small, because many followers may be slow at the same time. */
const pageBytesMax = 1_048_576;

/**
 * Serves one follower: reads recent rows from the tail and older rows from the database, and waits
 * when there are no new rows. Ends when the follower disconnects or loses permission.
 */
export async function* follow(
  deps: Deps,
  following: Following,
): AsyncGenerator<string | Uint8Array> {
  const { tail, signal, aliveMs, permittedMs } = following;
  let { position } = following;
  let sentAt = performance.now();
  let permittedAt = sentAt;
  yield `${retryLine}${alive(deps, following, position)}`;
  while (!signal.aborted) {
    const now = performance.now();
    if (now - permittedAt >= permittedMs) {
      if (!(await following.isStillPermitted())) return;
      permittedAt = now;
    }
    const stretch = fromTail(following, position) ?? (await fromLedger(deps, following, position));
    if (stretch.upTo > position) {
      position = stretch.upTo;
      if (stretch.chunk.length === 0) continue;
      sentAt = now;
      yield stretch.chunk;
    } else if (now - sentAt >= aliveMs) {
      sentAt = now;
      yield alive(deps, following, position);
    } else {
      const aliveLeft = sentAt + aliveMs - now;
      const permittedLeft = permittedAt + permittedMs - now;
      await tail.more(Math.max(1, Math.min(aliveLeft, permittedLeft)), signal);
    }
  }
}

function alive({ vault }: Deps, { tenantId }: Following, position: number): string {
  return aliveComment(writeCursor(vault, tenantId, { position, chainId: '', seq: 0 }));
}

/** Returns the next segment, or undefined if the tail no longer contains it. */
function fromTail({ tail, filter }: Following, position: number): Stretch | undefined {
  const segments = tail.after(position);
  if (segments === undefined) return undefined;
  const [next] = segments;
  if (next === undefined) return { chunk: '', upTo: position };
  return { chunk: chunkOf(next, filter, position), upTo: next.upTo };
}

function chunkOf(segment: Segment, filter: EventFilter, position: number): Uint8Array {
  if (position === segment.after && passesAll(filter)) return segment.messages;
  const wanted = segment.rows.filter(
    (row) => row.position > position && passes(filter, row.columns),
  );
  return Buffer.concat(wanted.map(({ message }) => message));
}

async function fromLedger(
  deps: Deps,
  { tenantId, filter }: Following,
  position: number,
): Promise<Stretch> {
  // Reads the head before the rows. Rows become visible in position order, so rows that are sealed
  // meanwhile come after the head's position.
  const head = await headPosition(deps.pool, tenantId);
  if (head <= position) return { chunk: '', upTo: position };
  const after = { position, seqIn: () => undefined };
  const read = { filter, after, upTo: head, limit: pageRows, bytesMax: pageBytesMax };
  const { events, isFull } = await readEvents(deps, tenantId, read);
  const last = isFull ? (events.at(-1)?.position ?? head) : head;
  return { chunk: events.map(eventMessage).join(''), upTo: last };
}
