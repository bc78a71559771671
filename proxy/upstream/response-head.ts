import type { Dispatcher } from 'undici';
import { inboundHeaders, withHeader } from '../../shared/upstream/headers.ts';

const heldBytesMax = 64 * 1024;
/** How long the beginning of a response of unknown or large size is held back. */
const heldMsMax = 100;

interface OpeningParts {
  /** From Content-Length; undefined if unknown. */
  readonly lengthBytes: number | undefined;
  readonly isEventStream: boolean;
  readonly release: () => void;
}

/**
 * Holds back the beginning of a response that a filter reads, so that a refusal can still replace
 * the response. A small response is held until it is complete, an event stream until its first
 * bytes, and any other response until 64 KiB have arrived or 100 ms have passed.
 */
export class AnswerOpening {
  readonly #parts: OpeningParts;
  readonly #chunks: Buffer[] = [];
  #bytes = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(parts: OpeningParts) {
    this.#parts = parts;
    const { lengthBytes, release } = parts;
    const endsSoon = lengthBytes !== undefined && lengthBytes <= heldBytesMax;
    if (!endsSoon) this.#timer = setTimeout(release, heldMsMax);
  }

  /** Keeps bytes; calls `release` if there is no reason to wait for more. */
  hold(bytes: Buffer): void {
    this.#chunks.push(bytes);
    this.#bytes += bytes.length;
    if (this.#parts.isEventStream || this.#bytes > heldBytesMax) this.#parts.release();
  }

  /** Returns all held bytes; to be called once. */
  take(): Buffer {
    this.drop();
    return this.#chunks.length === 1 && this.#chunks[0]
      ? this.#chunks[0]
      : Buffer.concat(this.#chunks);
  }

  drop(): void {
    clearTimeout(this.#timer);
  }
}

type RawHeaders = Dispatcher.DispatchController['rawHeaders'];

/**
 * The headers of an upstream's response for the agent; headers in `ours` replace the upstream's.
 */
export function answerHeaders(
  raw: RawHeaders,
  lengthKnown: boolean,
  ours: Readonly<Record<string, string>> = {},
): string[] {
  let answer = inboundHeaders(textOf(raw), lengthKnown);
  for (const [name, value] of Object.entries(ours)) answer = withHeader(answer, name, value);
  return answer;
}

function textOf(raw: RawHeaders): string[] {
  if (!Array.isArray(raw)) return [];
  return raw.map((part) => (typeof part === 'string' ? part : part.toString('latin1')));
}

/** Parsed headers as filters read them. */
export function filterView(
  headers: Readonly<Record<string, string | string[] | undefined>>,
): Readonly<Record<string, string | readonly string[]>> {
  const view: Record<string, string | readonly string[]> = {};
  for (const [name, value] of Object.entries(headers)) if (value !== undefined) view[name] = value;
  return view;
}
