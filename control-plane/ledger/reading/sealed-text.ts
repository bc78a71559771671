import { z } from 'zod';
import { isJsonObject } from '../../../shared/base/json.ts';
import { type EvidenceEvent, optionalEventTexts } from '../../../shared/ledger/event.ts';
import { readTextColumn } from '../../platform/store/read-column.ts';

/** A sealed event, parsed from its text. */
export interface SealedText extends EvidenceEvent {
  readonly [name: string]: unknown;
  readonly tenant: string;
  readonly position: number;
  readonly seq: number;
}

const texts = ['id', 'type', 'tenant', 'chain_id', 'occurred_at', 'source'] as const;

const sealedForm = z.custom<SealedText>(isSealed);

/**
 * Parses a text of the ledger. Checks only the types of the event's own members, because a page
 * holds up to a thousand texts. Members of `data` are checked where they are used.
 */
export function readSealed(canonical: string): SealedText {
  return readTextColumn(sealedForm, canonical, 'evidence_row.canonical');
}

function isSealed(value: unknown): value is SealedText {
  return (
    isJsonObject(value) &&
    texts.every((name) => typeof value[name] === 'string') &&
    optionalEventTexts.every(
      (name) => value[name] === undefined || typeof value[name] === 'string',
    ) &&
    Number.isSafeInteger(value.position) &&
    Number.isSafeInteger(value.seq) &&
    isJsonObject(value.data)
  );
}
