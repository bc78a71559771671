import { isJsonObject } from '../../../shared/base/json.ts';
import { GatewayError } from '../../../shared/errors/gateway-error.ts';
import { type EventText, eventText } from '../../../shared/ledger/canonical.ts';
import { type EventColumns, eventColumns } from '../../../shared/ledger/columns.ts';
import { type EvidenceEvent, optionalEventTexts } from '../../../shared/ledger/event.ts';

/** Maximum length of an indexed text, in characters of up to four bytes. */
const keyCharactersMax = 300;

const utcTime = /^(?!0000)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,3})?Z$/;

/**
 * Maximum length of a canonical text: the longest record of a sidecar plus position and seq. The
 * limit ensures that a batch always fits in memory.
 */
export const eventCharactersMax = 1_048_576 + 4_096;

/** A valid event, serialised without its position and seq. */
export interface SealableEvent {
  readonly event: EvidenceEvent;
  readonly text: EventText;
  readonly columns: EventColumns;
}

/**
 * Converts an event for sealing. Throws `evidence.event_invalid` for an event that the database
 * would reject, because such an event would make its whole batch fail.
 */
export function toSealable(tenantId: string, event: EvidenceEvent): SealableEvent {
  checkMembers(event);
  const text = writeText(tenantId, event);
  if (text.head.length + text.middle.length + text.tail.length > eventCharactersMax) {
    throw invalid(`it is longer than ${eventCharactersMax} characters`);
  }
  return { event, text, columns: eventColumns(event) };
}

function writeText(tenantId: string, event: EvidenceEvent): EventText {
  try {
    return eventText(tenantId, event);
  } catch (cause) {
    throw invalid(cause instanceof Error ? cause.message : String(cause), cause);
  }
}

function checkMembers(event: EvidenceEvent): void {
  for (const name of ['id', 'type', 'chain_id'] as const) checkKey(event[name], name);
  if (typeof event.source !== 'string') throw invalid('source must be a text');
  for (const name of optionalEventTexts) {
    const value = event[name];
    if (value !== undefined && typeof value !== 'string') throw invalid(`${name} must be a text`);
  }
  if (!isUtcTime(event.occurred_at)) {
    throw invalid('occurred_at must be an RFC 3339 time in UTC, as in 2026-07-01T09:00:00.000Z');
  }
  if (!isJsonObject(event.data)) throw invalid('data must be an object');
}

function checkKey(value: unknown, name: string): void {
  const fits =
    typeof value === 'string' &&
    value.length > 0 &&
    value.length <= keyCharactersMax &&
    !value.includes('\0');
  if (!fits)
    throw invalid(`${name} must be a text of 1 to ${keyCharactersMax} characters without NUL`);
}

function isUtcTime(value: unknown): boolean {
  return typeof value === 'string' && utcTime.test(value) && !Number.isNaN(Date.parse(value));
}

function invalid(what: string, cause?: unknown): GatewayError {
  return new GatewayError('evidence.event_invalid', {
    message: `The event is not valid: ${what}.`,
    cause,
  });
}
