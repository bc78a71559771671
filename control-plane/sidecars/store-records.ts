import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { EvidenceEvent } from '../../shared/ledger/event.ts';
import type { Services } from '../core/services.ts';
import { storeSalts } from '../ledger/privacy/store-salts.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { Sidecar } from '../platform/store/generated/client.ts';
import type { quarantine } from './quarantine.ts';
import { quarantineRecord, type Received } from './uploaded-record.ts';

/**
 * Stores the salts of records and seals their events. Resolves when every record is in the ledger,
 * with the events that were sealed unchanged. Records that the ledger permanently rejects are
 * quarantined. All further effects of a record are in `evidence-consumers.ts`.
 */
export async function storeRecords(
  services: Services,
  sidecar: Verified<Sidecar>,
  received: readonly Received[],
): Promise<readonly EvidenceEvent[]> {
  await storeReceivedSalts(services, sidecar.tenantId, received);
  const results = await services.ledger.sealKept(
    sidecar.tenantId,
    received.map(({ event }) => event),
  );
  const quarantined: Received[] = [];
  const sealed: EvidenceEvent[] = [];
  for (const [index, { record, line, event }] of received.entries()) {
    const result = results[index];
    if (result?.status !== 'rejected') {
      sealed.push(event);
      continue;
    }
    const code = lastingReason(result.reason);
    // A transient failure: the sidecar keeps all records and retries.
    if (code === undefined)
      throw new GatewayError('evidence.seal_failed', { cause: result.reason });
    const problem = code === 'evidence.id_conflict' ? 'its id is taken' : result.reason.message;
    quarantined.push(quarantineRecord(services, sidecar, { record, line, code, problem }));
  }
  if (quarantined.length === 0) return sealed;
  await storeReceivedSalts(services, sidecar.tenantId, quarantined);
  await services.ledger.sealAll(
    sidecar.tenantId,
    quarantined.map(({ event }) => event),
  );
  return sealed;
}

async function storeReceivedSalts(
  services: Services,
  tenantId: string,
  received: readonly Received[],
): Promise<void> {
  const salted = received.flatMap(({ event, salt, args }) =>
    salt === undefined ? [] : [{ event, salt, args }],
  );
  await storeSalts(services, tenantId, salted);
}

function lastingReason(reason: unknown): Parameters<typeof quarantine>[1]['code'] | undefined {
  if (!(reason instanceof GatewayError)) return undefined;
  const { code } = reason;
  return code === 'evidence.id_conflict' || code === 'evidence.event_invalid' ? code : undefined;
}
