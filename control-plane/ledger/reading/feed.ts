import { tenantTopic } from '../../../shared/bus/tenant-keys.ts';
import type { EvidenceFilters } from '../../../shared/contract/evidence/evidence.ts';
import { GatewayError } from '../../../shared/errors/gateway-error.ts';
import type { Platform } from '../../platform/platform.ts';

import { readCursor } from './cursor.ts';
import { type EventFilter, eventFilter } from './event-filter.ts';
import { follow } from './follow.ts';
import { headPosition } from './read-ledger.ts';
import { TenantTail } from './tenant-tail.ts';

export interface FollowRequest {
  readonly filters: EvidenceFilters;
  /**
   * Cursor to resume strictly after; undefined: the stream starts at the current end of the ledger.
   */
  readonly cursor: string | undefined;
  /** Aborted when the follower disconnects. */
  readonly signal: AbortSignal;
  /** Called periodically, so that a stream does not outlive its key. */
  isStillPermitted(): Promise<boolean>;
}

/** Streams sealed events to clients that follow a tenant's ledger. */
export interface EvidenceFeed {
  /**
   * Wakes the followers at this process and at other processes. Call it after each commit. Never
   * throws.
   */
  sealed(tenantId: string): void;
  /**
   * Opens a stream of server-sent events, or throws `evidence.cursor_invalid` or
   * `evidence.stream_full`.
   */
  open(tenantId: string, request: FollowRequest): Promise<AsyncIterable<string | Uint8Array>>;
  /** Number of followers at this process. */
  readonly followers: number;
  /** Ends every stream; clients resume at another process. */
  close(): Promise<void>;
}

interface Opened extends Pick<FollowRequest, 'signal' | 'isStillPermitted'> {
  readonly position: number;
  /** Position of the ledger when the stream was opened. */
  readonly head: number;
  readonly filter: EventFilter;
}

type FeedDeps = Pick<Platform, 'pool' | 'bus' | 'vault' | 'log'>;

export interface FeedOptions {
  /** Interval of keep-alive comments on an idle stream. */
  readonly aliveMs?: number;
  /** Interval of permission checks. */
  readonly permittedMs?: number;
  /** Interval of database reads while no notification arrives, in case the bus is unavailable. */
  readonly pollMs?: number;
  /** Maximum number of followers of one tenant's ledger at this process. */
  readonly followersMax?: number;
}

const topicOf = (tenantId: string) => tenantTopic(tenantId, 'evidence');

export function createFeed(deps: FeedDeps, options: FeedOptions = {}): EvidenceFeed {
  const { aliveMs = 15_000, permittedMs = 5_000, pollMs = 1_000, followersMax = 1_000 } = options;
  const tails = tailsOf({ ...deps, pollMs });
  const announce = announcerOf(deps);
  const closed = new AbortController();

  const isFull = (tenantId: string) => tails.holdersOf(tenantId) >= followersMax;

  async function* stream(tenantId: string, { position, head, ...request }: Opened) {
    // Checks again, because several callers may have passed the first check before any of them was
    // counted.
    if (isFull(tenantId)) return;
    const { tail, release } = tails.hold(tenantId, head);
    try {
      const signal = AbortSignal.any([request.signal, closed.signal]);
      const times = { aliveMs, permittedMs };
      yield* follow(deps, { ...request, ...times, tenantId, tail, position, signal });
    } finally {
      await release();
    }
  }

  return {
    sealed(tenantId) {
      tails.nudge(tenantId);
      announce(tenantId);
    },
    async open(tenantId, { filters, cursor, signal, isStillPermitted }) {
      const after = cursor === undefined ? undefined : readCursor(deps.vault, tenantId, cursor);
      const head = await headPosition(deps.pool, tenantId);
      if (isFull(tenantId)) throw new GatewayError('evidence.stream_full');
      const position = after?.position ?? head;
      const filter = eventFilter(filters);
      return stream(tenantId, { position, head, filter, signal, isStillPermitted });
    },
    get followers() {
      return tails.holders;
    },
    async close() {
      closed.abort();
      await tails.close();
    },
  };
}

interface HeldTail {
  readonly tail: TenantTail;
  close(): Promise<void>;
  holders: number;
}

/** Manages the tails: one for each tenant with followers, shared by these followers. */
function tailsOf(deps: FeedDeps & { readonly pollMs: number }) {
  const tails = new Map<string, HeldTail>();
  const open = (tenantId: string, head: number): HeldTail => {
    const tail = new TenantTail(tenantId, head, deps);
    const subscription = deps.bus.subscribe(topicOf(tenantId), () => tail.nudge());
    const close = async () => {
      await subscription.close();
      await tail.close();
    };
    return { tail, close, holders: 0 };
  };
  return {
    nudge: (tenantId: string) => tails.get(tenantId)?.tail.nudge(),
    holdersOf: (tenantId: string) => tails.get(tenantId)?.holders ?? 0,
    get holders() {
      return [...tails.values()].reduce((sum, { holders }) => sum + holders, 0);
    },
    hold(tenantId: string, head: number) {
      const held = tails.get(tenantId) ?? open(tenantId, head);
      tails.set(tenantId, held);
      held.holders += 1;
      held.tail.nudge();
      const release = async () => {
        held.holders -= 1;
        if (held.holders > 0) return;
        if (tails.get(tenantId) === held) tails.delete(tenantId);
        await held.close();
      };
      return { tail: held.tail, release };
    },
    async close() {
      await Promise.all([...tails.values()].map((held) => held.close()));
    },
  };
}

/**
 * Returns a function that notifies other processes. While a notification is in flight, further ones
 * are combined into one.
 */
function announcerOf({ bus, log }: FeedDeps): (tenantId: string) => void {
  const underWay = new Map<string, { isAsked: boolean }>();
  const announce = async (tenantId: string, state: { isAsked: boolean }) => {
    while (state.isAsked) {
      state.isAsked = false;
      // If the notification fails, followers at other processes read the events at their next poll.
      await bus.notify(topicOf(tenantId), '').catch((err: unknown) => {
        log.debug({ err, tenantId }, 'could not notify other processes of sealed events');
      });
    }
    underWay.delete(tenantId);
  };
  return (tenantId) => {
    const state = underWay.get(tenantId);
    if (state !== undefined) {
      state.isAsked = true;
      return;
    }
    const asked = { isAsked: true };
    underWay.set(tenantId, asked);
    void announce(tenantId, asked);
  };
}
