import { z } from 'zod';
import { isJsonObject, type JsonObject } from '../../shared/json.ts';
import { readTextColumn } from '../store/read-column.ts';

/** A sealed event, as its text says. */
export interface SealedText {
  readonly [name: string]: unknown;
  readonly id: string;
  readonly type: string;
  readonly tenant: string;
  readonly chain_id: string;
  readonly position: number;
  readonly seq: number;
  readonly occurred_at: string;
  readonly source: string;
  readonly agent_id?: string | undefined;
  readonly user_id?: string | undefined;
  readonly tool?: string | undefined;
  readonly resource?: string | undefined;
  readonly decision?: string | undefined;
  readonly reason_code?: string | undefined;
  readonly data: JsonObject;
}

const texts = ['id', 'type', 'tenant', 'chain_id', 'occurred_at', 'source'] as const;
const perhapsTexts = [
  'agent_id',
  'user_id',
  'tool',
  'resource',
  'decision',
  'reason_code',
] as const;

const sealedForm = z.custom<SealedText>(isSealed);

/**
 * Reads a text of the ledger. Only the types of the event's own members are checked, because a page
 * holds up to a thousand texts; members of `data` are checked where they are used.
 */
export function readSealed(canonical: string): SealedText {
  return readTextColumn(sealedForm, canonical, 'evidence_row.canonical');
}

function isSealed(value: unknown): value is SealedText {
  return (
    isJsonObject(value) &&
    texts.every((name) => typeof value[name] === 'string') &&
    perhapsTexts.every((name) => value[name] === undefined || typeof value[name] === 'string') &&
    Number.isSafeInteger(value.position) &&
    Number.isSafeInteger(value.seq) &&
    isJsonObject(value.data)
  );
}
