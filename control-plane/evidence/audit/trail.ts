import type { AuditQuery, ChainIntegrity } from '../../../shared/contract/evidence/audit.ts';
import type { SealedEventRecord } from '../../../shared/contract/evidence/evidence.ts';
import { canonicalJson } from '../../../shared/crypto/jcs.ts';
import type { Services } from '../../core/services.ts';
import { readCursor } from '../../ledger/reading/cursor.ts';
import { eventFilter } from '../../ledger/reading/event-filter.ts';
import type { EventsRead } from '../../ledger/reading/event-rows.ts';
import { pageOf, readEvents } from '../../ledger/reading/list-events.ts';
import { chainIntegrity, type ShownRow } from './chain-integrity.ts';

type Deps = Pick<Services, 'pool' | 'vault'>;

/** All types except agents' traffic. The index `evidence_row_audit` has the same condition. */
const administrative = `type NOT IN ('decision', 'execution.result', 'passport.issued', 'passport.renewed')
    AND type NOT LIKE 'custom.%'`;

interface AuditPage {
  readonly events: SealedEventRecord[];
  readonly chains: ChainIntegrity[];
  readonly next_cursor: string | null;
}

/**
 * Returns a page of the audit trail in position order, and the integrity of the chains of its
 * events.
 */
export async function listAudit(
  services: Deps,
  tenantId: string,
  { cursor, limit, ...filters }: AuditQuery,
): Promise<AuditPage> {
  const after = cursor === undefined ? undefined : readCursor(services.vault, tenantId, cursor);
  const read = { filter: eventFilter(filters), after, limit: limit + 1 };
  const page = pageOf(await readTrail(services, tenantId, read), limit);
  const chains = await chainsOf(services, tenantId, page.events);
  return { ...page, chains: [...chains] };
}

export function readTrail(
  services: Deps,
  tenantId: string,
  read: EventsRead,
): ReturnType<typeof readEvents> {
  return readEvents(services, tenantId, { ...read, among: administrative });
}

/** Returns the integrity of the chains of these events. */
export function chainsOf(
  services: Deps,
  tenantId: string,
  events: readonly SealedEventRecord[],
): Promise<readonly ChainIntegrity[]> {
  return chainIntegrity(services, tenantId, events.map(shownRow));
}

/** Restores the sealed text from a shown event. */
export function shownRow(record: SealedEventRecord): ShownRow {
  const { prev_hash, event_hash, sealed_at: _at, cursor: _cursor, ...sealed } = record;
  return {
    chainId: record.chain_id,
    seq: record.seq,
    prevHash: prev_hash,
    eventHash: event_hash,
    canonical: canonicalJson(sealed),
  };
}
