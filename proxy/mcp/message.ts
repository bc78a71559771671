import { isJsonObject, type JsonObject, type JsonValue } from '../../shared/base/json.ts';
import { parseStrictJson } from '../../shared/base/strict-json.ts';
import { foldCase } from '../../shared/binding/args.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';

type McpId = string | number;

/** One JSON-RPC 2.0 message from a client, reduced to what the protocol defines. */
export type McpMessage =
  | {
      readonly kind: 'request';
      readonly id: McpId;
      readonly method: string;
      readonly params?: JsonObject | undefined;
    }
  | {
      readonly kind: 'notification';
      readonly method: string;
      readonly params?: JsonObject | undefined;
    }
  | {
      readonly kind: 'response';
      readonly id: McpId;
      readonly outcome: { readonly result: JsonValue } | { readonly error: JsonObject };
    };

const methodForm = /^(?=.{1,128}$)[A-Za-z0-9_$-]+(?:[./][A-Za-z0-9_$-]+)*$/;
const members = ['jsonrpc', 'id', 'method', 'params', 'result', 'error'];

/**
 * Reads one message. Refuses batches, messages that are not exactly one request, notification or
 * response, and member names that a case-insensitive parser would confuse. Members that the
 * protocol does not define are dropped, because the forwarded message is written again.
 */
export function parseMessage(bytes: Uint8Array, limits: { readonly depthMax: number }): McpMessage {
  const value = parseStrictJson(bytes, limits);
  if (Array.isArray(value)) throw new GatewayError('mcp.batch_refused');
  if (!isJsonObject(value)) throw malformed('the message must be an object');
  refuseLookalikes(value, members);
  if (value.jsonrpc !== '2.0') throw malformed('jsonrpc must be "2.0"');
  return value.method === undefined ? parseResponse(value) : parseCall(value, value.method);
}

function parseCall(value: JsonObject, method: JsonValue): McpMessage {
  if (typeof method !== 'string' || !methodForm.test(method)) {
    throw malformed('method must be the name of a method');
  }
  if (value.result !== undefined || value.error !== undefined) {
    throw malformed('a call carries neither result nor error');
  }
  const { params } = value;
  if (params !== undefined && !isJsonObject(params)) throw malformed('params must be an object');
  const isNotification = method.startsWith('notifications/');
  if (value.id === undefined) {
    // A method other than `notifications/*` needs an id, because a server might perform the call
    // even if the id is missing.
    if (!isNotification) throw malformed('a request needs an id');
    return { kind: 'notification', method, params };
  }
  if (isNotification) throw malformed('a notification has no id');
  return { kind: 'request', id: parseId(value.id), method, params };
}

function parseResponse(value: JsonObject): McpMessage {
  const id = parseId(value.id);
  const { result, error } = value;
  if (value.params !== undefined) throw malformed('method is missing');
  if ((result === undefined) === (error === undefined)) {
    throw malformed('a response carries either result or error');
  }
  if (result !== undefined) return { kind: 'response', id, outcome: { result } };
  if (!isJsonObject(error)) throw malformed('error must be an object');
  return { kind: 'response', id, outcome: { error } };
}

function parseId(id: JsonValue | undefined): McpId {
  if (typeof id === 'string' || (typeof id === 'number' && Number.isSafeInteger(id))) return id;
  throw malformed('id must be a string or an integer');
}

/** Refuses members whose names differ from the given names only in case. */
export function refuseLookalikes(object: JsonObject, names: readonly string[]): void {
  for (const name of Object.keys(object)) {
    const meant = names.find((known) => foldCase(known) === foldCase(name));
    if (meant === undefined || meant === name) continue;
    throw malformed(`${JSON.stringify(name)} must be written ${meant}`);
  }
}

export function malformed(what: string): GatewayError {
  return new GatewayError('mcp.malformed', { message: `The MCP message is not valid: ${what}.` });
}

/** Writes the message in the form in which it is forwarded. */
export function writeMessage(message: McpMessage): Buffer {
  const { kind, ...rest } = message;
  if (kind !== 'response') return Buffer.from(JSON.stringify({ jsonrpc: '2.0', ...rest }));
  return Buffer.from(JSON.stringify({ jsonrpc: '2.0', id: message.id, ...message.outcome }));
}

/**
 * The id of a refused message, so that the client can match the refusal with its call. The id is
 * parsed leniently, because only its sender receives it.
 */
export function salvageId(bytes: Uint8Array): McpId | null {
  try {
    const value: unknown = JSON.parse(Buffer.from(bytes).toString('utf8'));
    if (!isJsonObject(value) || value.method === undefined) return null;
    return parseId(value.id);
  } catch {
    return null;
  }
}

/** The progress token of an MCP request, in revisions with and without sessions. */
export function progressTokenOf(params: JsonObject | undefined): string | number | undefined {
  const meta = params?._meta;
  const token = isJsonObject(meta) ? meta.progressToken : undefined;
  return typeof token === 'string' || Number.isSafeInteger(token)
    ? (token as string | number)
    : undefined;
}
