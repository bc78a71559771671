import { sha256 } from '../crypto/hash.ts';
import { canonicalJson } from '../crypto/jcs.ts';
import type { EvidenceEvent } from './event.ts';

/** An event's position in the tenant's ledger and in its chain, both counted from 1. */
interface Place {
  readonly tenantId: string;
  readonly position: number;
  readonly seq: number;
}

/**
 * The canonical text of an event in three parts. `position` and `seq` become known last and are
 * inserted between the parts, so that each event is serialised only once. Two events are equal if
 * and only if their parts are equal.
 */
export interface EventText {
  readonly head: string;
  readonly middle: string;
  readonly tail: string;
}

/** Serialises an event; throws for values that JSON cannot represent. */
export function eventText(tenantId: string, event: EvidenceEvent): EventText {
  const head = jcs({
    agent_id: event.agent_id,
    chain_id: event.chain_id,
    data: event.data,
    decision: event.decision,
    id: event.id,
    occurred_at: event.occurred_at,
  });
  const middle = jcs({ reason_code: event.reason_code, resource: event.resource });
  const tail = jcs({
    source: event.source,
    tenant: tenantId,
    tool: event.tool,
    type: event.type,
    user_id: event.user_id,
  });
  return {
    head: `${head.slice(0, -1)},"position":`,
    middle: `${middle === '{}' ? '' : `,${middle.slice(1, -1)}`},"seq":`,
    tail: `,${tail.slice(1)}`,
  };
}

export function placedText(text: EventText, position: number, seq: number): string {
  return text.head + position + text.middle + seq + text.tail;
}

/**
 * Returns the text that is hashed and stored for an event: the JCS form (RFC 8785) of the event
 * with its tenant, position and seq.
 */
export function canonicalEvent(event: EvidenceEvent, place: Place): string {
  return placedText(eventText(place.tenantId, event), place.position, place.seq);
}

/**
 * Writes canonical JSON (RFC 8785). For objects with sorted keys, `JSON.stringify` produces it
 * directly.
 */
function jcs(object: object): string {
  return isOrdered(object, 0) ? JSON.stringify(object) : canonicalJson(object);
}

/** Hashes the predecessor's hash in the chain together with the event's canonical text. */
export function eventHash(prevHash: string, canonical: string): string {
  return sha256(`${prevHash}\n${canonical}`);
}

const fastDepthMax = 64;

/**
 * True if `JSON.stringify` writes the canonical text: plain objects with sorted keys, arrays
 * without holes, well-formed strings, finite numbers. Other values take the slow path.
 */
function isOrdered(value: unknown, depth: number): boolean {
  if (typeof value === 'string') return value.isWellFormed();
  if (typeof value === 'boolean' || value === null) return true;
  if (typeof value === 'number') return Number.isFinite(value);
  if (typeof value !== 'object' || depth > fastDepthMax) return false;
  if (Array.isArray(value))
    return value.every((item) => isOrdered(item, depth + 1)) && isDense(value);
  return hasOrderedMembers(value, depth);
}

// True for an array without holes. `every` would skip a hole, but JSON.stringify writes a hole as
// null.
function isDense(items: readonly unknown[]): boolean {
  return Object.keys(items).length === items.length;
}

function hasOrderedMembers(object: object, depth: number): boolean {
  const prototype: unknown = Object.getPrototypeOf(object);
  if ((prototype !== Object.prototype && prototype !== null) || 'toJSON' in object) return false;
  let before = '';
  for (const [name, member] of Object.entries(object)) {
    if (name < before || !name.isWellFormed()) return false;
    before = name;
    if (member !== undefined && !isOrdered(member, depth + 1)) return false;
  }
  return true;
}
