import { isJsonObject, type JsonObject, type JsonValue } from '../../shared/base/json.ts';
import { parseStrictJson } from '../../shared/base/strict-json.ts';
import { foldCase } from '../../shared/binding/args.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { ResponseFilter } from '../../shared/upstream/response-filter.ts';
import { isToolName } from './methods.ts';
import { SseFilter } from './sse-filter.ts';

/** A tool as its server describes it in a response to `tools/list`. */
export interface ListedTool {
  /** Tool id: `mcp.<server>.<name>`. */
  readonly tool: string;
  /** The definition as received, with the tool's name on its server. */
  readonly definition: JsonObject;
}

interface ToolsListOptions {
  /** The name of the binding. */
  readonly server: string;
  /** Called for every tool of every response; a withheld tool is removed from the response. */
  readonly observe: (tool: ListedTool) => 'keep' | 'withhold';
  /** The longest response, or event of a stream, in bytes. Default 8 MiB. */
  readonly bytesMax?: number;
}

const bytesMaxByDefault = 8_388_608;

/**
 * Reads the tool lists in an MCP server's responses, as JSON or as an event stream, and removes the
 * tools to be withheld. Any message with `result.tools` is a tool list, whatever its request was.
 * An unreadable response is cut, because a client might read it differently.
 */
export function toolsListFilter(options: ToolsListOptions): ResponseFilter {
  const bytesMax = options.bytesMax ?? bytesMaxByDefault;
  let cause: 'mcp.answer_refused' | 'mcp.transport_unsupported' = 'mcp.answer_refused';
  const stream = new SseFilter((data, type) => {
    // With this event, a server of 2024-11-05 announces an endpoint for messages, which has no
    // binding.
    if (type === 'endpoint') cause = 'mcp.transport_unsupported';
    return type === 'endpoint' ? 'cut' : filterAnswer(data, options);
  }, bytesMax);
  return {
    bytesMax,
    head: (status, headers) => {
      // Clients accept results in 2xx responses only.
      if (status < 200 || status > 299) return 'pass';
      const type = headerText(headers, 'content-type');
      if (isEncoded(headers) || !isPlainType(type)) return 'cut';
      return type.startsWith('text/event-stream') ? 'stream' : 'buffer';
    },
    chunk: (bytes) => stream.push(bytes),
    whole: (bytes) => {
      if (bytes.length > bytesMax) return 'cut';
      return bytes.length === 0 ? bytes : filterAnswer(bytes, options);
    },
    cause: () => cause,
  };
}

type Headers = Readonly<Record<string, string | readonly string[]>>;

function headerText(headers: Headers, wanted: string): string {
  const found = Object.entries(headers).find(([name]) => name.toLowerCase() === wanted);
  return found === undefined ? '' : String(found[1]).trim().toLowerCase();
}

const charsets: readonly string[] = ['utf-8', 'utf8', 'us-ascii'];

/**
 * True for a single media type in UTF-8. With two types, clients may disagree on which one applies;
 * in another charset, the same bytes are another text.
 */
function isPlainType(type: string): boolean {
  if (type.includes(',')) return false;
  return [...type.matchAll(/charset\*?\s*=\s*["']?([^"';\s]*)/g)].every(([, charset = '']) =>
    charsets.includes(charset),
  );
}

/**
 * True if the response has a content coding. The sidecar requested none, and the filter cannot read
 * an encoded response.
 */
function isEncoded(headers: Headers): boolean {
  const coding = headerText(headers, 'content-encoding');
  return coding !== '' && coding !== 'identity';
}

/** The message without withheld tools; unchanged bytes if the message lists no tools. */
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
    // A tool without a valid name is dropped, because no client could call it and no policy could
    // name it. Of two tools with the same name, only the first is kept, so that the agent sees the
    // one that was checked.
    if (!isJsonObject(definition) || typeof definition.name !== 'string') continue;
    if (!isToolName(definition.name) || named.has(definition.name)) continue;
    named.set(definition.name, definition);
  }
  const kept = [...named].flatMap(([name, definition]) =>
    options.observe({ tool: `mcp.${options.server}.${name}`, definition }) === 'keep'
      ? [definition]
      : [],
  );
  return { ...message, result: { ...result, tools: kept } };
}

/**
 * Refuses a member whose name differs from `name` only in case, because some clients ignore case.
 */
function refuseLookalike(object: JsonObject, name: string): void {
  for (const member of Object.keys(object)) {
    if (member !== name && foldCase(member) === name) throw new GatewayError('mcp.malformed');
  }
}
