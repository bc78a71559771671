import type { EvidenceEvent } from './event.ts';

/**
 * Columns that are stored next to an event's canonical text, so that filters need not parse the
 * text.
 */
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
 * The key under which an event is stored once. It includes the source, so that a sidecar's event
 * can neither replace nor imitate an event of another source.
 */
export function eventKey({ id, source }: Pick<Described, 'id' | 'source'>): string {
  return source.startsWith('sidecar:') ? `${columnText(source)}/${id}` : id;
}

// Text that an agent chooses, such as a tool's name, can exceed an index entry or contain U+0000,
// which Postgres cannot store. The column holds a valid prefix; the canonical text is always
// complete.
const columnCharactersMax = 400;

/** The part of a text that its column can hold. */
export function columnText(value: string): string {
  const whole = value.includes('\0') ? value.replaceAll('\0', '\u{FFFD}') : value;
  return whole.length <= columnCharactersMax
    ? whole
    : whole.slice(0, columnCharactersMax).toWellFormed();
}

function columnTextOrNull(value: string | undefined): string | null {
  return value === undefined ? null : columnText(value);
}
