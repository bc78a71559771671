import { foldCase } from '../../shared/binding/args.ts';
import { GatewayError } from '../../shared/errors.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../shared/json.ts';
import { parseStrictJson } from '../../shared/strict-json.ts';
import type { ResponseFilter } from '../upstream/forwarding.ts';
import { SseFilter } from './sse-filter.ts';

/** A tool as its server describes it in an answer to `tools/list`. */
export interface ListedTool {
  /** Tool id: `mcp.<server>.<name>`. */
  readonly tool: string;
  readonly definition: JsonObject;
  readonly surfaceHash: string;
}

interface ToolsListOptions {
  /** The name of the binding. */
  readonly server: string;
  /** Over the definition under the tool's id instead of its bare name. */
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
    bytesMax,
    head: (status, headers) => {
      // Clients take a result from a 2xx answer only.
      if (status < 200 || status > 299) return 'pass';
      if (isEncoded(headers)) return 'cut';
      return isEventStream(headers) ? 'stream' : 'buffer';
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

/** Encoded answers were not asked for, and cannot be read. */
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
  const named = new Map<string, JsonObject>();
  for (const definition of tools as readonly JsonValue[]) {
    // Without a name no client could call it, and no policy could speak of it. Of two tools of
    // one name only the first is shown, so that what was observed is what the agent sees.
    if (!isJsonObject(definition) || typeof definition.name !== 'string') continue;
    if (!named.has(definition.name)) named.set(definition.name, definition);
  }
  const kept = [...named].flatMap(([name, definition]) =>
    isKept(name, definition, options) ? [definition] : [],
  );
  return { ...message, result: { ...result, tools: kept } };
}

function isKept(name: string, definition: JsonObject, options: ToolsListOptions): boolean {
  const tool = `mcp.${options.server}.${name}`;
  const surfaceHash = options.surfaceHash({ ...definition, name: tool });
  return options.observe({ tool, definition, surfaceHash }) === 'keep';
}

/** Some clients match member names without regard to case. */
function refuseLookalike(object: JsonObject, name: string): void {
  for (const member of Object.keys(object)) {
    if (member !== name && foldCase(member) === name) throw new GatewayError('mcp.malformed');
  }
}
