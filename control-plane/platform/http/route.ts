import type { IncomingHttpHeaders } from 'node:http';
import type { z } from 'zod';
import type { AnyOperation, Operation } from '../../../shared/contract/base/operation.ts';
import type { Caller } from '../access/caller.ts';

export interface Input<Op extends AnyOperation> {
  readonly params: Op extends Operation<infer P, infer _Q, infer _B, infer _S>
    ? z.output<P>
    : never;
  readonly query: Op extends Operation<infer _P, infer Q, infer _B, infer _S> ? z.output<Q> : never;
  readonly body: Op extends Operation<infer _P, infer _Q, infer B, infer _S> ? z.output<B> : never;
}

type SuccessOf<Op extends AnyOperation> =
  Op extends Operation<infer _P, infer _Q, infer _B, infer S> ? z.input<S> : never;

interface ReplyHead {
  /** Default: the operation's success status. */
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * Reply of a use case: a value sent as JSON, bytes (with the operation's content type, unless a
 * header overrides it), or a stream that ends with its iterator.
 */
export type Reply<Op extends AnyOperation> =
  | (ReplyHead & { readonly body: SuccessOf<Op> })
  | (ReplyHead & { readonly bytes: string | Uint8Array })
  | (ReplyHead & { readonly stream: AsyncIterable<string | Uint8Array> });

/** Data of the request that a few use cases need in addition to their input. */
export interface RequestFacts {
  readonly requestId: string;
  /** W3C trace context to propagate. */
  readonly traceparent: string;
  readonly headers: IncomingHttpHeaders;
  /** The body as received, to verify signatures over it. */
  readonly rawBody: Buffer;
  /** Aborted when the client disconnects. */
  readonly signal: AbortSignal;
}

export interface Route {
  readonly operation: AnyOperation;
  handle(
    input: Input<AnyOperation>,
    caller: Caller,
    request: RequestFacts,
  ): Promise<Reply<AnyOperation>>;
}

/** Binds an operation to its use case. */
export function route<Op extends AnyOperation>(
  operation: Op,
  handle: (input: Input<Op>, caller: Caller, request: RequestFacts) => Promise<Reply<Op>>,
): Route {
  return { operation, handle: handle as Route['handle'] };
}
