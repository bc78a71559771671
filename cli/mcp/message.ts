import { isJsonObject, type JsonObject, type JsonValue } from '../../shared/base/json.ts';

type MessageId = string | number;

/**
 * What the bridge must know of a message to carry it. Read leniently, and never by which anything
 * is allowed: the sidecar reads the bytes themselves, strictly.
 */
export interface Envelope {
  readonly id: MessageId | undefined;
  readonly method: string | undefined;
  readonly params: JsonObject;
  readonly result: JsonValue | undefined;
}

/** Undefined for what is no JSON-RPC message. */
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

/** `1` and `"1"` are two ids. */
export function idKey(id: unknown): string {
  return JSON.stringify(id) ?? '';
}

/** A request whose answer never came, answered all the same. */
export function failure(id: MessageId | null, message: string, data?: unknown): string {
  const code = id === null ? -32_600 : -32_000;
  return JSON.stringify({ jsonrpc: '2.0', id, error: { code, message, data } });
}
