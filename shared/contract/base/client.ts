import type { z } from 'zod';
import { isJsonObject } from '../../base/json.ts';
import { type ErrorCode, errorKinds, isErrorCode } from '../../errors/error-kinds.ts';
import { GatewayError } from '../../errors/gateway-error.ts';
import type { AnyOperation, Operation } from './operation.ts';

export interface ClientOptions {
  /** Ends with `/api`. */
  readonly baseUrl: string;
  /** The complete `Authorization` header, such as `Bearer apk_…`; if empty, no header is sent. */
  readonly authorization: () => string | Promise<string>;
  readonly fetch?: typeof fetch;
  /** Time-out of one call, including the response. Default: 30 seconds. */
  readonly timeoutMs?: number;
}

type InputOf<Schema> = Schema extends z.ZodUndefined
  ? undefined
  : Schema extends z.ZodType
    ? z.input<Schema>
    : never;

type Part<Name extends string, Value> = [Value] extends [undefined]
  ? unknown
  : undefined extends Value
    ? { readonly [name in Name]?: Value }
    : { readonly [name in Name]: Value };

/**
 * The input of a call: the path parameters, query and body that the operation declares. Path and
 * query values are converted to text.
 */
export type CallInput<Op extends AnyOperation> =
  Op extends Operation<infer P, infer Q, infer B, infer _S>
    ? Part<'params', TextForms<InputOf<P>>> &
        (InputOf<Q> extends undefined ? unknown : { readonly query?: TextForms<InputOf<Q>> }) &
        Part<'body', BodyOf<InputOf<B>>>
    : never;

/** A request body: a value of its schema's type, or the bytes to send. */
type BodyOf<Value> = [Value] extends [undefined] ? undefined : Value | Uint8Array<ArrayBuffer>;

/** Numbers and booleans are accepted in place of their text. */
type TextForms<Value> = Value extends object
  ? { readonly [Name in keyof Value]: Value[Name] | number | boolean }
  : Value;

export type CallAnswer<Op extends AnyOperation> =
  Op extends Operation<infer _P, infer _Q, infer _B, infer S> ? z.output<S> : never;

export interface Client {
  /**
   * Calls an operation and validates the response against its schema. Throws GatewayError: with the
   * code of an error response (status, body and `retryAfterSeconds` in its details),
   * `upstream.unreachable` or `upstream.timeout` if there is no response, and `internal.unexpected`
   * for a response that violates the contract.
   */
  call<Op extends AnyOperation>(
    operation: Op,
    ...input: Record<never, never> extends CallInput<Op>
      ? [input?: CallInput<Op>]
      : [input: CallInput<Op>]
  ): Promise<CallAnswer<Op>>;
  /**
   * Like `call`, but for a response that may be large or endless: returns its bytes as a stream.
   * The time-out applies to the response head only. `signal` ends the stream.
   */
  open<Op extends AnyOperation>(
    operation: Op,
    input?: Pick<LooseInput, 'params' | 'query'> & { readonly signal?: AbortSignal },
  ): Promise<AsyncIterable<Uint8Array>>;
}

interface LooseInput {
  readonly params?: Readonly<Record<string, unknown>>;
  readonly query?: Readonly<Record<string, unknown>>;
  readonly body?: unknown;
}

/** Creates a typed client of the control plane's API. */
export function createClient(options: ClientOptions): Client {
  return {
    call: async (operation, ...[input]) => {
      const signal = AbortSignal.timeout(options.timeoutMs ?? timeoutMsDefault);
      const given = { ...(input as LooseInput | undefined), signal };
      const response = await exchange(options, operation, given);
      const body = await readJson(response);
      if (!isExpected(operation, response)) throw answeredError(response, body);
      const { schema } = operation.success;
      if (schema === undefined) return undefined as never;
      const parsed = schema.safeParse(body);
      if (parsed.success) return parsed.data as never;
      throw new GatewayError('internal.unexpected', {
        message: `The response to ${operation.id} does not match the API contract.`,
        cause: parsed.error,
      });
    },
    open: async (operation, { signal, ...input } = {}) => {
      const late = new AbortController();
      const timer = setTimeout(
        () => late.abort(new DOMException('no response in time', 'TimeoutError')),
        options.timeoutMs ?? timeoutMsDefault,
      );
      try {
        const both = signal === undefined ? late.signal : AbortSignal.any([late.signal, signal]);
        const response = await exchange(options, operation, { ...input, signal: both });
        if (!isExpected(operation, response)) {
          throw answeredError(response, await readJson(response));
        }
        return bytesOf(response);
      } finally {
        clearTimeout(timer);
      }
    },
  };
}

const timeoutMsDefault = 30_000;

function isExpected(operation: AnyOperation, { status }: Response): boolean {
  return [operation.success.status, ...(operation.alsoStatus ?? [])].includes(status);
}

async function* bytesOf({ body }: Response): AsyncGenerator<Uint8Array> {
  try {
    if (body !== null) yield* body;
  } catch (cause) {
    throw transportError(cause);
  }
}

async function exchange(
  { baseUrl, authorization, fetch: send = fetch }: ClientOptions,
  operation: AnyOperation,
  { params = {}, query = {}, body, signal }: LooseInput & { readonly signal: AbortSignal },
): Promise<Response> {
  const header = await authorization();
  const headers = new Headers({ accept: operation.success.contentType ?? 'application/json' });
  if (header !== '') headers.set('authorization', header);
  const url = urlOf(baseUrl, operation, { params, query });
  const payload = payloadOf(operation, body);
  if (payload !== undefined) headers.set('content-type', contentTypeOf(operation));
  try {
    return await send(url, {
      method: operation.method,
      headers,
      // The API key must not be sent to a redirect's target.
      redirect: 'manual',
      signal,
      ...(payload === undefined ? {} : { body: payload }),
    });
  } catch (cause) {
    throw transportError(cause);
  }
}

function payloadOf(
  { bodyType }: AnyOperation,
  body: unknown,
): string | Uint8Array<ArrayBuffer> | undefined {
  if (body === undefined || body instanceof Uint8Array) return body as Uint8Array<ArrayBuffer>;
  if (bodyType !== 'ndjson' || !Array.isArray(body)) return JSON.stringify(body);
  return body.map((line) => `${line}\n`).join('');
}

function contentTypeOf({ bodyType }: AnyOperation): string {
  return bodyType === 'ndjson' ? 'application/x-ndjson' : 'application/json';
}

function transportError(cause: unknown): GatewayError {
  const isTimeout = cause instanceof Error && cause.name === 'TimeoutError';
  return new GatewayError(isTimeout ? 'upstream.timeout' : 'upstream.unreachable', {
    message: isTimeout
      ? 'The control plane did not respond in time.'
      : 'The control plane is unreachable.',
    cause,
  });
}

function urlOf(
  baseUrl: string,
  { path, isPathOpen = false }: AnyOperation,
  { params, query }: Required<Pick<LooseInput, 'params' | 'query'>>,
): string {
  const filled = path.replaceAll(/\{(\w+)\}/g, (_match, name: string) => {
    const value = String(params[name] ?? '');
    // A URL parser would resolve dot segments, so that the request would address a different
    // resource than the one in the parameter.
    const segments = isPathOpen ? value.split('/') : [value];
    if (segments.some((segment) => ['', '.', '..'].includes(segment))) {
      throw new GatewayError('request.invalid', { message: `${name} is not a path parameter.` });
    }
    const encoded = encodeURIComponent(value);
    return isPathOpen ? encoded.replaceAll('%2F', '/') : encoded;
  });
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined);
  const search = new URLSearchParams(
    Object.fromEntries(pairs.map(([name, value]) => [name, String(value)])),
  );
  return `${baseUrl.replace(/\/+$/, '')}${filled}${search.size === 0 ? '' : `?${search}`}`;
}

/** Parses the body as JSON, or returns it as text. */
async function readJson(response: Response): Promise<unknown> {
  let text: string;
  try {
    text = await response.text();
  } catch (cause) {
    throw transportError(cause);
  }
  try {
    return text === '' ? undefined : JSON.parse(text);
  } catch {
    return text;
  }
}

function answeredError(response: Response, body: unknown): GatewayError {
  const { status } = response;
  const errorBody = isJsonObject(body) ? body : {};
  const code = errorBody.reason_code;
  const retryAfter = Number(response.headers.get('retry-after') ?? Number.NaN);
  const known = typeof code === 'string' && isErrorCode(code) ? code : codeOf(status);
  return new GatewayError(known, {
    message:
      typeof errorBody.error === 'string'
        ? errorBody.error
        : `The control plane returned status ${status}.`,
    details: {
      ...errorBody,
      status,
      ...(Number.isFinite(retryAfter) ? { retryAfterSeconds: retryAfter } : {}),
    },
  });
}

/** Returns the error code for the status of a response whose body contains no known code. */
function codeOf(status: number): ErrorCode {
  const general: Partial<Record<number, ErrorCode>> = {
    401: 'auth.invalid_key',
    403: 'auth.insufficient_permission',
    404: 'request.not_found',
    429: 'rate_limited',
    [errorKinds['store.unavailable'].status]: 'store.unavailable',
  };
  return (
    general[status] ?? (status >= 400 && status < 500 ? 'request.invalid' : 'internal.unexpected')
  );
}
