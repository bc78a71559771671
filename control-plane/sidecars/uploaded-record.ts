import type { JsonObject } from '../../shared/base/json.ts';
import { spoolRecord } from '../../shared/contract/spool-record.ts';
import { canonicalJson } from '../../shared/crypto/jcs.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { EvidenceEvent } from '../../shared/ledger/event.ts';
import { refuseUnkeepable } from '../platform/http/body.ts';

/** One record of the spool. */
export interface UploadedRecord {
  readonly event: EvidenceEvent;
  /** What the digest of the arguments is keyed with, base64. */
  readonly salt?: string | undefined;
  /** The arguments as the sidecar redacted them. */
  readonly args?: JsonObject | undefined;
}

/** Reads a line of a spool, or says why the ledger cannot take it. */
export function readRecord(line: string): UploadedRecord | { readonly problem: string } {
  try {
    const value: unknown = JSON.parse(line);
    refuseUnkeepable(value, 'record');
    const parsed = spoolRecord.safeParse(value);
    if (!parsed.success) {
      const [issue] = parsed.error.issues;
      return {
        problem: `${issue?.path.join('.') ?? 'record'}: ${issue?.message ?? 'is not valid'}`,
      };
    }
    // A text with a second reading, such as a key given twice, is nobody's record.
    if (canonicalJson(parsed.data) !== line) return { problem: 'it is not written canonically' };
    return parsed.data;
  } catch (error) {
    return { problem: error instanceof GatewayError ? error.message : 'it is not readable JSON' };
  }
}
