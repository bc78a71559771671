import type { JsonObject } from '../../shared/base/json.ts';
import { spoolRecord } from '../../shared/contract/spool-record.ts';
import { canonicalJson } from '../../shared/crypto/jcs.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { eventKey } from '../../shared/ledger/columns.ts';
import type { EvidenceEvent } from '../../shared/ledger/event.ts';
import type { LedgerAcknowledgement } from '../../shared/ledger/ledger-acknowledgement.ts';
import type { SpoolPosition } from '../../shared/ledger/spool-head.ts';
import type { Services } from '../core/services.ts';
import { storeSalts } from '../ledger/privacy/store-salts.ts';
import type { Caller } from '../platform/access/caller.ts';
import { refuseUnstorable } from '../platform/http/body.ts';
import type { Sidecar } from '../platform/store/generated/client.ts';
import { applyObservedDrift } from '../tools/apply-observed-drift.ts';
import { ownSidecar } from './fleet.ts';
import { acknowledgement, assertKept } from './ledger-acknowledgement.ts';
import { claimedSalt, quarantine } from './quarantine.ts';
import { reportIncident } from './report-incident.ts';
import { checkSpoolOrder } from './spool-order.ts';
import { Speakers } from './uploaded-event.ts';
import { readUpload, type Upload } from './uploaded-segment.ts';

/** A record to seal: as its own event, or as the event of its quarantine. */
interface Received {
  readonly record: number;
  readonly line: string;
  readonly event: EvidenceEvent;
  readonly salt: string | undefined;
  /** Redacted arguments, stored separately from the event. */
  readonly args?: JsonObject | undefined;
}

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
  const received = await receive(services, sidecar, upload.records, head.after.record);
  const keys = received.map(({ event }) => eventKey(event));
  const { isRewound } = await checkSpoolOrder(services, sidecar, { after: head.after, keys });
  await storeReceivedSalts(services, sidecar.tenantId, received);
  const sealed = await seal(services, sidecar, received);
  // Before the acknowledgement, so that a failure makes the sidecar upload the report again.
  for (const event of sealed) await applyObservedDrift(services, sidecar, event);
  await acknowledge(services, sidecar, { last: head.last, isRewound });
  const ledger = await acknowledgement(services, sidecar.tenantId);
  return { sealed: received.length, acked: head.last, ledger };
}

async function refused(
  services: Services,
  sidecar: Sidecar,
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

async function receive(
  services: Services,
  sidecar: Sidecar,
  lines: readonly string[],
  after: number,
): Promise<readonly Received[]> {
  const speakers = new Speakers(services, sidecar);
  const received: Received[] = [];
  for (const [index, line] of lines.entries()) {
    const record = after + index + 1;
    const read = readRecord(line);
    const problem = 'problem' in read ? read.problem : await speakers.problemOf(read.event);
    if (problem === undefined && !('problem' in read)) {
      const { event, salt, args } = read;
      received.push({ record, line, event, salt, args });
    } else {
      const code = 'evidence.event_invalid';
      received.push(
        quarantineRecord(services, sidecar, { record, line, code, problem: problem ?? '' }),
      );
    }
  }
  return received;
}

function quarantineRecord(
  { log }: Services,
  sidecar: Sidecar,
  refusal: Parameters<typeof quarantine>[1],
): Received {
  const { record, line, code, problem } = refusal;
  log.error(
    { sidecar: sidecar.id, record, reason_code: code, problem },
    'quarantined a sidecar’s record',
  );
  return { record, line, event: quarantine(sidecar, refusal), salt: claimedSalt(line) };
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

/**
 * Resolves with the events that were sealed as they came, once every record is in the ledger.
 * Records that the ledger permanently rejects are quarantined.
 */
async function seal(
  services: Services,
  sidecar: Sidecar,
  received: readonly Received[],
): Promise<readonly EvidenceEvent[]> {
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
    // The sidecar keeps all records and retries.
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

function lastingReason(reason: unknown): Parameters<typeof quarantine>[1]['code'] | undefined {
  if (!(reason instanceof GatewayError)) return undefined;
  const { code } = reason;
  return code === 'evidence.id_conflict' || code === 'evidence.event_invalid' ? code : undefined;
}

/** Never decreases, because a repeated older batch does not change the end of the spool. */
async function acknowledge(
  { db, clock }: Services,
  { tenantId, id }: Sidecar,
  { last, isRewound }: { readonly last: SpoolPosition; readonly isRewound: boolean },
): Promise<void> {
  const record = BigInt(last.record);
  const isNews = isRewound ? {} : { ackedRecord: { lte: record } };
  await db.sidecar.updateMany({
    where: { tenantId, id, ...isNews },
    data: {
      ackedRecord: record,
      ackedSegment: last.hash,
      lastSeenAt: new Date(clock.now()),
    },
  });
}

/** One record of the spool. */
interface UploadedRecord {
  readonly event: EvidenceEvent;
  /** Salt of the digest of the arguments, base64. */
  readonly salt?: string | undefined;
  /** The arguments as the sidecar redacted them. */
  readonly args?: JsonObject | undefined;
}

/** Parses a line of a spool, or returns why the ledger cannot accept it. */
function readRecord(line: string): UploadedRecord | { readonly problem: string } {
  try {
    const value: unknown = JSON.parse(line);
    refuseUnstorable(value, 'record');
    const parsed = spoolRecord.safeParse(value);
    if (!parsed.success) {
      const [issue] = parsed.error.issues;
      return {
        problem: `${issue?.path.join('.') ?? 'record'}: ${issue?.message ?? 'is not valid'}`,
      };
    }
    // Canonical text only, because a text with a duplicate key is ambiguous.
    if (canonicalJson(parsed.data) !== line) return { problem: 'it is not written canonically' };
    return parsed.data;
  } catch (error) {
    return { problem: error instanceof GatewayError ? error.message : 'it is not readable JSON' };
  }
}
