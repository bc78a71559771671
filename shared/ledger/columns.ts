import type { EvidenceEvent } from './event.ts';

/** What is kept beside the canonical text of an event, so that filters need not read it. */
export interface EventColumns {
  /** See `eventKey`. */
  readonly eventId: string;
  readonly type: string;
  readonly source: string;
  readonly agentId: string | null;
  readonly tool: string | null;
  readonly decision: string | null;
  readonly reasonCode: string | null;
  /** Milliseconds since the epoch. */
  readonly occurredAtMs: number;
}

type Described = Pick<
  EvidenceEvent,
  'id' | 'type' | 'source' | 'agent_id' | 'tool' | 'decision' | 'reason_code' | 'occurred_at'
>;

export function eventColumns(event: Described): EventColumns {
  return {
    eventId: eventKey(event),
    type: event.type,
    source: columnText(event.source),
    agentId: columnTextOrNull(event.agent_id),
    tool: columnTextOrNull(event.tool),
    decision: columnTextOrNull(event.decision),
    reasonCode: columnTextOrNull(event.reason_code),
    occurredAtMs: Date.parse(event.occurred_at),
  };
}

/**
 * Under which an event is stored once. Ids are each witness's own: what one sidecar writes can
 * neither take the place of another's event nor be found as one of the control plane's.
 */
export function eventKey({ id, source }: Pick<Described, 'id' | 'source'>): string {
  return source.startsWith('sidecar:') ? `${columnText(source)}/${id}` : id;
}

// What an agent may choose, such as a tool's name, can be longer than an index entry may be, or
// hold the one character that Postgres does not store. The column then holds what fits; the
// canonical text always has the whole.
const columnCharactersMax = 400;

/** As much of a text as its column holds. */
export function columnText(value: string): string {
  const whole = value.includes('\0') ? value.replaceAll('\0', '\u{FFFD}') : value;
  return whole.length <= columnCharactersMax
    ? whole
    : whole.slice(0, columnCharactersMax).toWellFormed();
}

function columnTextOrNull(value: string | undefined): string | null {
  return value === undefined ? null : columnText(value);
}
