import { sha256 } from '../../../shared/crypto/hash.ts';
import type { EventText } from '../../../shared/ledger/canonical.ts';
import type { EvidenceEvent } from '../../../shared/ledger/event.ts';
import { derivedId, integrityChain } from '../../platform/integrity/incident-ids.ts';

const rowIdCharactersMax = 300;

/** Chain of what happens to the ledger itself. */
export const ledgerChain = 'ledger:incidents';

/**
 * Somebody sent another event under an id that was sealed before. The same content always makes
 * the same incident, so that one that is sent again and again is recorded once.
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
 * An event is in the ledger as if all had gone well, and yet whoever asked for it was told that
 * sealing failed: the answer of the database to the commit was lost.
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

/** An event in the outbox cannot be read any more; what can be said of it is said. */
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

/** A row of the outbox was not written by the control plane: this is sealed in its place. */
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
