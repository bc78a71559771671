import type { EvidenceFilters } from '../../shared/contract/evidence/evidence.ts';
import type { streamEvidence } from '../../shared/contract/evidence/evidence-reading.ts';
import type { Services } from '../core/services.ts';
import { readCursor } from '../ledger/reading/cursor.ts';
import { bearerToken } from '../platform/access/authenticate.ts';
import type { Caller } from '../platform/access/caller.ts';
import { keyDirectory } from '../platform/access/key-directory.ts';
import type { Reply, RequestFacts } from '../platform/http/route.ts';

/**
 * Opens the stream of events. Rejects a malformed `cursor` before the stream starts, even if the
 * request has a Last-Event-ID, which takes precedence over `cursor`.
 */
export async function openStream(
  services: Services,
  caller: Caller,
  {
    query: { cursor, ...filters },
    request,
  }: {
    readonly query: EvidenceFilters & { readonly cursor?: string | undefined };
    readonly request: RequestFacts;
  },
): Promise<Reply<typeof streamEvidence>> {
  const { feed, vault } = services;
  const { tenantId } = caller;
  if (cursor !== undefined) readCursor(vault, tenantId, cursor);
  // A browser that has not received an id yet sends no header or an empty one.
  const lastEventId = String(request.headers['last-event-id'] ?? '') || undefined;
  const stream = await feed.open(tenantId, {
    filters,
    cursor: lastEventId ?? cursor,
    signal: request.signal,
    isStillPermitted: () => isStillPermitted(services, caller, request),
  });
  return { stream, headers: { 'cache-control': 'no-store', 'x-accel-buffering': 'no' } };
}

async function isStillPermitted(
  services: Services,
  { tenantId, keyId }: Caller,
  request: RequestFacts,
): Promise<boolean> {
  const holder = await keyDirectory(services).find(bearerToken(request, false));
  return (
    holder?.keyId === keyId &&
    holder?.tenantId === tenantId &&
    holder.permissions.has('evidence.read')
  );
}
