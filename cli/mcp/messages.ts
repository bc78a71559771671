import { isJsonObject, type JsonObject, type JsonValue } from '../../shared/base/json.ts';

type MessageId = string | number;

/**
 * The members of a JSON-RPC message that the bridge needs to route it. Parsed leniently and never
 * used to allow anything, because the sidecar parses the same bytes strictly.
 */
export interface Envelope {
  readonly id: MessageId | undefined;
  readonly method: string | undefined;
  readonly params: JsonObject;
  readonly result: JsonValue | undefined;
}

/** Undefined if the text is not a JSON object. */
export function readEnvelope(text: string): Envelope | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!isJsonObject(value)) return undefined;
  const { id, method, params, result } = value;
  return {
    id: typeof id === 'string' || typeof id === 'number' ? id : undefined,
    method: typeof method === 'string' ? method : undefined,
    params: isJsonObject(params) ? params : {},
    result,
  };
}

/** A map key for an id: `1` and `"1"` are different ids. */
export function idKey(id: unknown): string {
  return JSON.stringify(id) ?? '';
}

/** An error response to a request that the server did not answer. */
export function failure(id: MessageId | null, message: string, data?: unknown): string {
  const code = id === null ? -32_600 : -32_000;
  return JSON.stringify({ jsonrpc: '2.0', id, error: { code, message, data } });
}

/** A longer line is not an MCP message. */
const lineBytesMax = 64 * 1024 ** 2;

/**
 * Splits a byte stream into lines, without the line ends. Only LF ends a line, because JSON text
 * may contain other line separators (U+2028). Throws for a line that is too long.
 */
export async function* linesOf(stream: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let partial: Buffer[] = [];
  let partialBytes = 0;
  for await (const chunk of stream) {
    let from = 0;
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, from)) {
      const line = Buffer.concat([...partial, chunk.subarray(from, end)]);
      partial = [];
      partialBytes = 0;
      from = end + 1;
      if (!isBlank(line)) yield line;
    }
    partial.push(chunk.subarray(from));
    partialBytes += chunk.length - from;
    if (partialBytes > lineBytesMax) {
      throw new Error(`A line is longer than ${lineBytesMax} bytes, too long for an MCP message.`);
    }
  }
  const rest = Buffer.concat(partial);
  if (!isBlank(rest)) yield rest;
}

function isBlank(line: Buffer): boolean {
  return line.length === 0 || (line.length === 1 && line[0] === 13);
}
