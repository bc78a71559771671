import type { EvidenceEvent } from '../../../shared/ledger/event.ts';

/** An event whose sealing failed, until the outbox has it. */
export interface DeadLetter {
  readonly tenantId: string;
  readonly event: EvidenceEvent;
  readonly reason: string;
}

/** In `data` of an event whose sealing failed at first: whoever asked for it was told so, and refused. */
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
