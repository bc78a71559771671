import type { z } from 'zod';
import { isJsonObject } from '../../base/json.ts';
import { type ErrorCode, errorKinds, isErrorCode } from '../../errors/error-kinds.ts';
import { GatewayError } from '../../errors/gateway-error.ts';
import type { AnyOperation, Operation } from './operation.ts';

export interface ClientOptions {
  /** Ends in `/api`. */
  readonly baseUrl: string;
  /** The whole `Authorization` header, such as `Bearer apk_…`; empty: none is sent. */
  readonly authorization: () => string | Promise<string>;
  readonly fetch?: typeof fetch;
  /** For one call, answer included. Default: 30 seconds. */
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

/** What a call of an operation takes: the parts it declares. Path and query values are written as text. */
export type CallInput<Op extends AnyOperation> =
  Op extends Operation<infer P, infer Q, infer B, infer _S>
    ? Part<'params', TextForms<InputOf<P>>> &
        (InputOf<Q> extends undefined ? unknown : { readonly query?: TextForms<InputOf<Q>> }) &
        Part<'body', BodyOf<InputOf<B>>>
    : never;

/** A body as its schema has it, or the bytes that are to be sent for it. */
type BodyOf<Value> = [Value] extends [undefined] ? undefined : Value | Uint8Array<ArrayBuffer>;

/** Numbers and booleans may stand for the text they are written as. */
type TextForms<Value> = Value extends object
  ? { readonly [Name in keyof Value]: Value[Name] | number | boolean }
  : Value;

export type CallAnswer<Op extends AnyOperation> =
  Op extends Operation<infer _P, infer _Q, infer _B, infer S> ? z.output<S> : never;

export interface Client {
  /**
   * Calls an operation and returns its answer, held against the operation's schema. Throws
   * GatewayError: with the code of an error answer (status, body and `retryAfterSeconds` in its
   * details), `upstream.unreachable` or `upstream.timeout` when no answer came, and
   * `internal.unexpected` for an answer that is not what the contract says.
   */
  call<Op extends AnyOperation>(
    operation: Op,
    ...input: Record<never, never> extends CallInput<Op>
      ? [input?: CallInput<Op>]
      : [input: CallInput<Op>]
  ): Promise<CallAnswer<Op>>;
  /**
   * The same for an answer of any size, or without end: its bytes as they come. Only the head of
   * the answer must come in time. `signal` ends it.
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

/** A typed client of the control plane's API. */
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
        message: `The answer to ${operation.id} is not what the contract says.`,
        cause: parsed.error,
      });
    },
    open: async (operation, { signal, ...input } = {}) => {
      const late = new AbortController();
      const timer = setTimeout(
        () => late.abort(new DOMException('no answer in time', 'TimeoutError')),
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
      // A key must not follow a redirect.
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
      ? 'The control plane did not answer in time.'
      : 'The control plane cannot be reached.',
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
    // Such a segment would be resolved away and address something else.
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

/** The body as JSON, or as text where it is none. */
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
  const told = isJsonObject(body) ? body : {};
  const code = told.reason_code;
  const retryAfter = Number(response.headers.get('retry-after') ?? Number.NaN);
  const known = typeof code === 'string' && isErrorCode(code) ? code : codeOf(status);
  return new GatewayError(known, {
    message: typeof told.error === 'string' ? told.error : `The control plane answered ${status}.`,
    details: {
      ...told,
      status,
      ...(Number.isFinite(retryAfter) ? { retryAfterSeconds: retryAfter } : {}),
    },
  });
}

/** The code that stands for a status whose body names none that is known here. */
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
