import { isJsonObject, type JsonObject } from '../../shared/base/json.ts';
import { sha256 } from '../../shared/crypto/hash.ts';
import type { EvidenceEvent } from '../../shared/ledger/event.ts';
import { derivedId } from '../platform/integrity/incident-ids.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { Sidecar } from '../platform/store/generated/client.ts';

/** Maximum text of a record in an event, even if every character must be escaped. */
const textCharactersMax = 400_000;
const claimCharactersMax = 256;
const saltCharactersMax = 128;
const utcTime = /^[1-9]\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

interface Refused {
  /** Record number in the spool. */
  readonly record: number;
  readonly line: string;
  readonly code: 'evidence.event_invalid' | 'evidence.id_conflict';
  readonly problem: string;
}

/**
 * Builds the event for a record that cannot be sealed as its own event. The event contains the
 * record as plain text, and the reason, so that the record is kept and does not block later ones.
 * The same record always makes the same event, because sidecars retry.
 */
export function quarantine(
  { id, agentId, enrolledAt }: Verified<Sidecar>,
  { record, line, code, problem }: Refused,
): EvidenceEvent {
  const claimed = claimedIn(line);
  const { salt: _salt, args: _args, ...plain } = claimed.record;
  const text = claimed.isReadable ? JSON.stringify(plain) : line;
  const recordHash = sha256(line);
  return {
    agent_id: agentId,
    chain_id: `sidecar:${id}`,
    data: {
      claims: claimsOf(claimed.event),
      problem,
      record,
      record_hash: recordHash,
      sidecar_id: id,
      text: text.slice(0, textCharactersMax).toWellFormed(),
      whole: text.length <= textCharactersMax,
    },
    id: derivedId(`put aside ${id} ${record} ${recordHash} ${code} ${problem}`),
    occurred_at: timeOf(claimed.event) ?? enrolledAt.toISOString(),
    reason_code: code,
    source: 'control-plane',
    type: 'sidecar.evidence_put_aside',
  };
}

/** Salt of the record's digest of arguments. The salt is stored separately from events. */
export function claimedSalt(line: string): string | undefined {
  const { salt } = claimedIn(line).record;
  return typeof salt === 'string' && salt.length <= saltCharactersMax ? salt : undefined;
}

function claimedIn(line: string) {
  const nothing = { isReadable: false, record: {} as JsonObject, event: {} as JsonObject };
  try {
    const record: unknown = JSON.parse(line);
    if (!isJsonObject(record)) return nothing;
    // Throws for nesting too deep to serialise; such a record counts as unreadable.
    JSON.stringify(record);
    return { isReadable: true, record, event: isJsonObject(record.event) ? record.event : {} };
  } catch {
    return nothing;
  }
}

function claimsOf(event: JsonObject): JsonObject {
  const claims: [string, string][] = [];
  for (const name of ['decision', 'id', 'reason_code', 'resource', 'source', 'tool', 'type']) {
    const value = event[name];
    if (typeof value === 'string') {
      claims.push([name, value.slice(0, claimCharactersMax).toWellFormed()]);
    }
  }
  return Object.fromEntries(claims);
}

function timeOf({ occurred_at: time }: JsonObject): string | undefined {
  return typeof time === 'string' && utcTime.test(time) && !Number.isNaN(Date.parse(time))
    ? time
    : undefined;
}
