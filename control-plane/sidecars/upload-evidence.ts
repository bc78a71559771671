import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { eventKey } from '../../shared/ledger/columns.ts';
import type { LedgerAcknowledgement } from '../../shared/ledger/ledger-acknowledgement.ts';
import type { SpoolPosition } from '../../shared/ledger/spool-head.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { Sidecar } from '../platform/store/generated/client.ts';
import { consumeSealed } from './evidence-consumers.ts';
import { ownSidecar } from './fleet.ts';
import { acknowledgement, assertKept } from './ledger-acknowledgement.ts';
import { reportIncident } from './report-incident.ts';
import { checkSpoolOrder } from './spool-order.ts';
import { storeRecords } from './store-records.ts';
import { readRecords } from './uploaded-record.ts';
import { readUpload, type Upload } from './uploaded-segment.ts';

/**
 * Seals a sidecar's records in their order. A batch that does not match its signature is rejected
 * whole and reported. A signed record that the ledger cannot accept, such as one for another agent,
 * is quarantined with its reason. Uploading again changes nothing.
 */
export async function uploadEvidence(
  services: Services,
  caller: Caller,
  upload: Upload,
): Promise<{
  readonly sealed: number;
  readonly acked: SpoolPosition;
  readonly ledger?: LedgerAcknowledgement | undefined;
}> {
  const sidecar = await ownSidecar(services, caller);
  const head = readUpload(sidecar, upload);
  if ('problem' in head) throw await refused(services, sidecar, upload, head.problem);
  if (upload.ledger !== undefined) await assertKept(services, sidecar, upload.ledger);
  const received = await readRecords(services, sidecar, upload.records, head.after.record);
  const keys = received.map(({ event }) => eventKey(event));
  const { isRewound } = await checkSpoolOrder(services, sidecar, { after: head.after, keys });
  const sealed = await storeRecords(services, sidecar, received);
  // Runs before the acknowledgement, so that a failure makes the sidecar upload the records again.
  await consumeSealed(services, sidecar, sealed);
  await acknowledge(services, sidecar, { last: head.last, isRewound });
  const ledger = await acknowledgement(services, sidecar.tenantId);
  return { sealed: received.length, acked: head.last, ledger };
}

async function refused(
  services: Services,
  sidecar: Verified<Sidecar>,
  { segment }: Upload,
  problem: string,
): Promise<GatewayError> {
  await reportIncident(services, sidecar, {
    type: 'sidecar.evidence_refused',
    key: `${problem} ${segment}`,
    data: { problem },
  });
  return new GatewayError('evidence.event_invalid', { message: `Nothing was sealed: ${problem}.` });
}

/**
 * The acknowledged record never decreases, because a repeated older batch does not change the end
 * of the spool.
 */
async function acknowledge(
  services: Services,
  { tenantId, id }: Verified<Sidecar>,
  { last, isRewound }: { readonly last: SpoolPosition; readonly isRewound: boolean },
): Promise<void> {
  const record = BigInt(last.record);
  const isNews = isRewound ? {} : { ackedRecord: { lte: record } };
  const acked = { ackedRecord: record, ackedSegment: last.hash };
  await signedRows(services, 'sidecar').updateUnsigned(
    { tenantId, id, ...isNews },
    { ...acked, lastSeenAt: new Date(services.clock.now()) },
  );
}
