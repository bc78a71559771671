import type {
  EvidenceQuery,
  SealedEventRecord,
} from '../../../shared/contract/evidence/evidence.ts';
import type { SealedEvent } from '../../../shared/ledger/event.ts';
import type { Platform } from '../../platform/platform.ts';
import type { Vault } from '../../platform/vault/vault.ts';
import { readCursor, writeCursor } from './cursor.ts';
import { eventFilter } from './event-filter.ts';
import { type EventsRead, readEventRows } from './event-rows.ts';
import { readSealed } from './sealed-text.ts';

interface EventsPage {
  readonly events: SealedEventRecord[];
  readonly next_cursor: string | null;
}

/** Returns a page of a tenant's events that pass every filter, in position order. */
export async function listEvents(
  services: Pick<Platform, 'pool' | 'vault'>,
  tenantId: string,
  { cursor, limit, ...filters }: EvidenceQuery,
): Promise<EventsPage> {
  const after = cursor === undefined ? undefined : readCursor(services.vault, tenantId, cursor);
  const filter = eventFilter(filters);
  return pageOf(await readEvents(services, tenantId, { filter, after, limit: limit + 1 }), limit);
}

interface EventsRecords {
  readonly events: SealedEventRecord[];
  /** True if the limit or the byte size ended the page, so that more events may follow. */
  readonly isFull: boolean;
}

/** Builds a page from the result of a read with a limit of `limit + 1`. */
export function pageOf({ events: read, isFull }: EventsRecords, limit: number): EventsPage {
  const events = read.slice(0, limit);
  return { events, next_cursor: isFull ? (events.at(-1)?.cursor ?? null) : null };
}

/**
 * Returns up to `limit` events after a cursor, or fewer if they are large. Each event has its own
 * cursor.
 */
export async function readEvents(
  { pool, vault }: Pick<Platform, 'pool' | 'vault'>,
  tenantId: string,
  read: EventsRead,
): Promise<EventsRecords> {
  const { rows, isFull } = await readEventRows(pool, tenantId, read);
  const events = rows.map(([position, chainId, seq, prevHash, eventHash, canonical, sealedAt]) => ({
    ...toRecord(vault, {
      tenantId,
      position: Number(position),
      chainId,
      seq: Number(seq),
      prevHash,
      eventHash,
      canonical,
    }),
    sealed_at: sealedAt.toISOString(),
  }));
  return { events, isFull };
}

/** A sealed event as the API shows it. */
export function toRecord(vault: Pick<Vault, 'mac'>, sealed: SealedEvent): SealedEventRecord {
  return {
    ...readSealed(sealed.canonical),
    prev_hash: sealed.prevHash,
    event_hash: sealed.eventHash,
    cursor: writeCursor(vault, sealed.tenantId, sealed),
  };
}
