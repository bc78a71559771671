import { isJsonObject } from '../../base/json.ts';
import {
  type BundleChain,
  type BundleEvent,
  bundleEnd,
  bundleMiddle,
  startLine,
} from './layout.ts';

/** Access to the bytes of an export. */
export interface ExportFile {
  readonly size: number;
  /** Reads from `start` up to but not including `end`. */
  read(start: number, end: number): Promise<Uint8Array>;
  /** Streams everything before `end`, in parts of any length. */
  parts(end: number): AsyncIterable<Uint8Array>;
}

/** Thrown if a file does not have the format of a bundle. */
export class MalformedBundle extends Error {
  override readonly name = 'MalformedBundle';
}

/**
 * Maximum length of a line, far above the longest event. Without this limit, a file without line
 * ends would be held in memory.
 */
const lineBytesMax = 16 << 20;
const pageEvents = 500;
/** Maximum length of a page, so that a page of long events contains fewer events. */
const pageCharactersMax = 4 << 20;

interface BundleContent {
  readonly tenant: string;
  readonly size: number;
  readonly bytes: number;
}

/** Parses a JSON bundle in order: its events in pages, then its chains. */
export function readBundle(file: ExportFile, { tenant, size, bytes }: BundleContent) {
  const chains: BundleChain[] = [];
  return {
    async *pages(): AsyncGenerator<readonly BundleEvent[]> {
      const lines = linesOf(file.parts(bytes));
      const start = await lines.next();
      if (start.value !== startLine({ tenant, size }))
        throw malformed(1, 'is not the first line of a bundle');
      yield* readEvents(lines);
      for await (const chain of readChains(lines)) chains.push(chain);
    },
    chains: (): readonly BundleChain[] => chains,
  };
}

type Lines = AsyncGenerator<string, void>;

async function* readEvents(lines: Lines): AsyncGenerator<readonly BundleEvent[]> {
  let page: BundleEvent[] = [];
  let characters = 0;
  for await (const value of readList(lines, bundleMiddle)) {
    const event = toEvent(value);
    page.push(event);
    characters += event.canonical.length;
    if (page.length < pageEvents && characters < pageCharactersMax) continue;
    yield page;
    page = [];
    characters = 0;
  }
  if (page.length > 0) yield page;
}

async function* readChains(lines: Lines): AsyncGenerator<BundleChain> {
  for await (const value of readList(lines, bundleEnd)) yield toChain(value);
  if ((await lines.next()).done !== true) throw malformed(undefined, 'comes after the end');
}

/** Yields the values of a list, one for each line, up to the line that ends the list. */
async function* readList(lines: Lines, end: string): AsyncGenerator<unknown> {
  let wantsMore = false;
  // A for-await loop would close the generator, which still has the lines after the list.
  for (let next = await lines.next(); ; next = await lines.next()) {
    if (next.done === true) throw malformed(undefined, 'is missing: the list has no end');
    const line = next.value;
    if (line === end) {
      if (wantsMore) throw malformed(undefined, 'is missing after a comma');
      return;
    }
    wantsMore = line.endsWith(',');
    yield parse(wantsMore ? line.slice(0, -1) : line);
  }
}

/** Yields lines, without their line ends. Bytes after the last line end also form a line. */
async function* linesOf(parts: AsyncIterable<Uint8Array>): Lines {
  let begun: Uint8Array[] = [];
  let begunBytes = 0;
  for await (const part of parts) {
    let start = 0;
    for (let end = part.indexOf(10); end !== -1; end = part.indexOf(10, start)) {
      yield decode([...begun, part.subarray(start, end)]);
      begun = [];
      begunBytes = 0;
      start = end + 1;
    }
    if (start === part.length) continue;
    begun.push(part.subarray(start));
    begunBytes += part.length - start;
    if (begunBytes > lineBytesMax) throw malformed(undefined, 'is longer than an event can be');
  }
  if (begunBytes > 0) yield decode(begun);
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function decode(parts: readonly Uint8Array[]): string {
  try {
    return utf8.decode(Buffer.concat(parts));
  } catch {
    throw malformed(undefined, 'is not UTF-8');
  }
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    throw malformed(undefined, 'is not JSON');
  }
}

function toEvent(value: unknown): BundleEvent {
  const isEvent =
    isJsonObject(value) &&
    Number.isSafeInteger(value.position) &&
    ['prev_hash', 'event_hash', 'canonical'].every((name) => typeof value[name] === 'string') &&
    (value.proof === undefined || isTexts(value.proof));
  if (!isEvent) throw malformed(undefined, 'is not an event of a bundle');
  return value as unknown as BundleEvent;
}

function toChain(value: unknown): BundleChain {
  const isChain =
    isJsonObject(value) &&
    Number.isSafeInteger(value.seq) &&
    ['chain_id', 'event_hash'].every((name) => typeof value[name] === 'string');
  if (!isChain) throw malformed(undefined, 'is not a chain of a bundle');
  return value as unknown as BundleChain;
}

function isTexts(value: unknown): boolean {
  return Array.isArray(value) && value.every((one) => typeof one === 'string');
}

function malformed(line: number | undefined, what: string): MalformedBundle {
  return new MalformedBundle(line === undefined ? `a line ${what}` : `line ${line} ${what}`);
}
