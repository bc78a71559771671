import type { JsonObject } from '../../shared/base/json.ts';
import { spoolRecord } from '../../shared/contract/spool-record.ts';
import { canonicalJson } from '../../shared/crypto/jcs.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { EvidenceEvent } from '../../shared/ledger/event.ts';
import type { Services } from '../core/services.ts';
import { refuseUnstorable } from '../platform/http/body.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { Sidecar } from '../platform/store/generated/client.ts';
import { claimedSalt, quarantine } from './quarantine.ts';
import { Speakers } from './uploaded-event.ts';

/** A record to seal: as its own event, or as the event of its quarantine. */
export interface Received {
  readonly record: number;
  readonly line: string;
  readonly event: EvidenceEvent;
  readonly salt: string | undefined;
  /** Redacted arguments, stored separately from the event. */
  readonly args?: JsonObject | undefined;
}

/**
 * Reads lines of the spool that follow record number `after`, and quarantines records that the
 * ledger cannot accept.
 */
export async function readRecords(
  services: Services,
  sidecar: Verified<Sidecar>,
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

/** Logs a record that the ledger cannot accept, and returns its quarantine to seal instead. */
export function quarantineRecord(
  { log }: Services,
  sidecar: Verified<Sidecar>,
  refusal: Parameters<typeof quarantine>[1],
): Received {
  const { record, line, code, problem } = refusal;
  log.error(
    { sidecar: sidecar.id, record, reason_code: code, problem },
    'quarantined a sidecar’s record',
  );
  return { record, line, event: quarantine(sidecar, refusal), salt: claimedSalt(line) };
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
