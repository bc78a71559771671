import { sha256 } from '../../../shared/crypto/hash.ts';
import type { EventText } from '../../../shared/ledger/canonical.ts';
import type { EvidenceEvent } from '../../../shared/ledger/event.ts';
import { derivedId, integrityChain } from '../../platform/integrity/incident-ids.ts';

const rowIdCharactersMax = 300;

/** Chain of incidents of the ledger itself. */
export const ledgerChain = 'ledger:incidents';

/**
 * Builds the incident that an event arrived with the id of a different event that is already
 * sealed. The same content always results in the same incident, so that repeats are recorded once.
 */
export function conflictIncident(event: EvidenceEvent, text: EventText): EvidenceEvent {
  const digest = sha256(`${text.head}${text.middle}${text.tail}`);
  return {
    agent_id: event.agent_id,
    chain_id: ledgerChain,
    data: { claimed_source: event.source, content_digest: digest, event_id: event.id },
    id: derivedId(`conflict ${digest}`),
    occurred_at: event.occurred_at,
    reason_code: 'evidence.id_conflict',
    source: 'control-plane',
    type: 'evidence.id_conflict',
  };
}

/**
 * Builds the incident that an event was sealed although its caller received an error. This happens
 * if the database's response to the commit is lost.
 */
export function lateIncident(event: EvidenceEvent): EvidenceEvent {
  return {
    agent_id: event.agent_id,
    chain_id: ledgerChain,
    data: { event_id: event.id },
    id: derivedId(`late ${event.id}`),
    occurred_at: event.occurred_at,
    reason_code: 'evidence.seal_failed',
    source: 'control-plane',
    type: 'evidence.dead_lettered',
  };
}

/**
 * Builds the incident that an event in the outbox cannot be read. The incident records what is
 * known about the event.
 */
export function unreadableIncident(
  eventId: string,
  text: string,
  occurredAt: string,
): EvidenceEvent {
  const digest = sha256(text);
  return {
    chain_id: ledgerChain,
    data: { content_digest: digest, event_id: eventId },
    id: derivedId(`unreadable ${eventId} ${digest}`),
    occurred_at: occurredAt,
    reason_code: 'evidence.event_invalid',
    source: 'control-plane',
    type: 'evidence.event_unreadable',
  };
}

/**
 * Builds the incident that an outbox row failed its integrity check. The incident is sealed instead
 * of the row's event.
 */
export function forgedIncident(eventId: string, text: string, occurredAt: string): EvidenceEvent {
  const digest = sha256(text);
  return {
    chain_id: integrityChain,
    data: {
      content_digest: digest,
      row_id: eventId.slice(0, rowIdCharactersMax),
      table: 'event_outbox',
    },
    id: derivedId(`forged outbox ${eventId} ${digest}`),
    occurred_at: occurredAt,
    reason_code: 'integrity.forged_row',
    source: 'control-plane',
    type: 'integrity.forged_row',
  };
}
