import type { EvidenceEvent } from '../../../shared/ledger/event.ts';

/** An event whose sealing failed and that the outbox has not stored yet. */
export interface DeadLetter {
  readonly tenantId: string;
  readonly event: EvidenceEvent;
  readonly reason: string;
}

/** Member of `data` that marks an event whose first sealing failed. The caller was then refused. */
const deadLetterFlag = 'evidence.dead_lettered';

export function flagDeadLetter(event: EvidenceEvent): EvidenceEvent {
  return { ...event, data: { ...event.data, [deadLetterFlag]: true } };
}

export function isFlagged(event: EvidenceEvent): boolean {
  return event.data[deadLetterFlag] === true;
}

export function withoutFlag(event: EvidenceEvent): EvidenceEvent {
  const { [deadLetterFlag]: _, ...data } = event.data;
  return { ...event, data };
}
