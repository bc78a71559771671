import { foldCase } from '../../shared/binding/args.ts';
import { GatewayError } from '../../shared/errors.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../shared/json.ts';
import { parseStrictJson } from '../../shared/strict-json.ts';
import type { ResponseFilter } from '../upstream/forward.ts';
import { SseFilter } from './sse-filter.ts';

/** A tool as its server describes it in an answer to `tools/list`. */
export interface ListedTool {
  /** Tool id: `mcp.<server>.<name>`. */
  readonly tool: string;
  readonly definition: JsonObject;
  readonly surfaceHash: string;
}

export interface ToolsListOptions {
  /** The name of the binding. */
  readonly server: string;
  readonly surfaceHash: (definition: JsonObject) => string;
  /** Called for every tool of every answer; what is withheld does not reach the agent. */
  readonly observe: (tool: ListedTool) => 'keep' | 'withhold';
  /** Longest answer, or event of a stream, in bytes. Default 8 MiB. */
  readonly bytesMax?: number;
}

const bytesMaxByDefault = 8_388_608;

/**
 * Reads the lists of tools in an MCP server's answers as they pass, as JSON or as an event
 * stream, page by page, and takes out the tools that are to be withheld. It needs no request to
 * go with: any message with `result.tools` is one, on whichever stream it arrives. What cannot
 * be read is cut, for a client might read it otherwise.
 */
export function toolsListFilter(options: ToolsListOptions): ResponseFilter {
  const bytesMax = options.bytesMax ?? bytesMaxByDefault;
  const rewrite = (data: Buffer) => filterAnswer(data, options);
  const stream = new SseFilter(rewrite, bytesMax);
  return {
    head: (status, headers) => {
      // Clients take a result from a 2xx answer only.
      if (status < 200 || status > 299) return 'pass';
      return isEventStream(headers) && !isEncoded(headers) ? 'stream' : 'buffer';
    },
    chunk: (bytes) => stream.push(bytes),
    whole: (bytes) => {
      if (bytes.length > bytesMax) return 'cut';
      return bytes.length === 0 ? bytes : rewrite(bytes);
    },
  };
}

type Headers = Readonly<Record<string, string | readonly string[]>>;

function headerText(headers: Headers, wanted: string): string {
  const found = Object.entries(headers).find(([name]) => name.toLowerCase() === wanted);
  return found === undefined ? '' : String(found[1]).trim().toLowerCase();
}

function isEventStream(headers: Headers): boolean {
  return headerText(headers, 'content-type').startsWith('text/event-stream');
}

/** Encoded answers were not asked for; read as they are, they are cut. */
function isEncoded(headers: Headers): boolean {
  const coding = headerText(headers, 'content-encoding');
  return coding !== '' && coding !== 'identity';
}

/** The message without withheld tools; unchanged bytes when it lists none. */
function filterAnswer(data: Buffer, options: ToolsListOptions): Buffer | 'cut' {
  try {
    const value = parseStrictJson(data, { depthMax: 128, numbers: 'rounded' });
    const messages = Array.isArray(value) ? (value as readonly JsonValue[]) : [value];
    const filtered = messages.map((message) => filterMessage(message, options));
    if (filtered.every((message, index) => message === messages[index])) return data;
    return Buffer.from(JSON.stringify(Array.isArray(value) ? filtered : filtered[0]));
  } catch (error) {
    if (error instanceof GatewayError) return 'cut';
    throw error;
  }
}

function filterMessage(message: JsonValue, options: ToolsListOptions): JsonValue {
  if (!isJsonObject(message)) return message;
  refuseLookalike(message, 'result');
  const { result } = message;
  if (!isJsonObject(result)) return message;
  refuseLookalike(result, 'tools');
  const { tools } = result;
  if (tools === undefined) return message;
  if (!Array.isArray(tools)) throw new GatewayError('mcp.malformed');
  const kept = (tools as readonly JsonValue[]).filter((definition) => isKept(definition, options));
  return { ...message, result: { ...result, tools: kept } };
}

/** A tool without a name is none: no client could call it, and no policy could speak of it. */
function isKept(definition: JsonValue, options: ToolsListOptions): boolean {
  if (!isJsonObject(definition) || typeof definition.name !== 'string') return false;
  const tool = `mcp.${options.server}.${definition.name}`;
  const surfaceHash = options.surfaceHash(definition);
  return options.observe({ tool, definition, surfaceHash }) === 'keep';
}

/** Some clients match member names without regard to case. */
function refuseLookalike(object: JsonObject, name: string): void {
  for (const member of Object.keys(object)) {
    if (member !== name && foldCase(member) === name) throw new GatewayError('mcp.malformed');
  }
}
