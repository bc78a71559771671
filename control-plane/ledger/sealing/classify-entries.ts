import { canonicalEvent, type EventText, placedText } from '../../../shared/ledger/canonical.ts';
import type { SealedEvent } from '../../../shared/ledger/event.ts';
import type { SealableEvent } from './check-event.ts';
import { flagDeadLetter, isFlagged, withoutFlag } from './dead-letter-flag.ts';

/** An event to seal, and the callbacks of its caller. */
export interface Entry extends SealableEvent {
  /** Id of the outbox row that the event comes from, if any. Sealing deletes this row. */
  readonly outboxId?: string | undefined;
  /** True if the caller keeps the event and sends it again until it is sealed. */
  readonly isKept?: boolean | undefined;
  settle(sealed: SealedEvent): void;
  fail(error: Error): void;
}

interface ClassifiedEntries {
  /**
   * Entries to seal, in order. If several entries have the same event, `fresh` has the first one
   * and `repeats` the others.
   */
  readonly fresh: readonly Entry[];
  readonly repeats: ReadonlyMap<Entry, readonly Entry[]>;
  readonly alreadySealed: readonly { readonly entry: Entry; readonly sealed: SealedEvent }[];
  /** Entries whose id already belongs to a different event. */
  readonly conflicts: readonly Entry[];
}

/**
 * Separates new events, events that are already sealed, and events whose id already belongs to a
 * different event.
 */
export function classifyEntries(
  entries: readonly Entry[],
  existing: ReadonlyMap<string, SealedEvent>,
): ClassifiedEntries {
  const firsts = new Map<string, Entry>();
  const repeats = new Map<Entry, Entry[]>();
  const alreadySealed: { entry: Entry; sealed: SealedEvent }[] = [];
  const conflicts: Entry[] = [];
  for (const entry of entries) {
    const key = entry.columns.eventId;
    const sealed = existing.get(key);
    const first = firsts.get(key);
    if (sealed !== undefined) {
      if (isSealedAs(entry, sealed)) alreadySealed.push({ entry, sealed });
      else conflicts.push(entry);
    } else if (first === undefined) {
      firsts.set(key, entry);
    } else if (isSameText(first.text, entry.text)) {
      repeats.set(first, [...(repeats.get(first) ?? []), entry]);
    } else {
      conflicts.push(entry);
    }
  }
  return { fresh: [...firsts.values()], repeats, alreadySealed, conflicts };
}

/** Returns whether the entry has the same bytes as the sealed event, ignoring the late flag. */
function isSealedAs({ event, text }: Entry, sealed: SealedEvent): boolean {
  if (placedText(text, sealed.position, sealed.seq) === sealed.canonical) return true;
  const other = isFlagged(event) ? withoutFlag(event) : flagDeadLetter(event);
  return canonicalEvent(other, sealed) === sealed.canonical;
}

function isSameText(one: EventText, other: EventText): boolean {
  return one.head === other.head && one.middle === other.middle && one.tail === other.tail;
}
