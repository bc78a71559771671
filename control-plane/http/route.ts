import type { z } from 'zod';
import type { AnyOperation, Operation, Permission } from '../../shared/contract/operation.ts';

/** Who calls, as authentication found out; never from the request's body. */
export interface Caller {
  readonly kind: 'key' | 'sidecar' | 'anonymous';
  /** Empty for anonymous callers. */
  readonly tenantId: string;
  /** The person or service that the key stands for, or `sidecar:<id>`. */
  readonly principal: string;
  readonly role: string;
  readonly scope: 'tenant' | 'gateway';
  readonly permissions: ReadonlySet<Permission>;
  readonly keyId?: string | undefined;
  /** A key bound to an agent, or the sidecar's agent. */
  readonly agentId?: string | undefined;
  readonly sidecarId?: string | undefined;
  readonly address: string;
}

export interface Input<Op extends AnyOperation> {
  readonly params: Op extends Operation<infer P, infer _Q, infer _B, infer _S>
    ? z.output<P>
    : never;
  readonly query: Op extends Operation<infer _P, infer Q, infer _B, infer _S> ? z.output<Q> : never;
  readonly body: Op extends Operation<infer _P, infer _Q, infer B, infer _S> ? z.output<B> : never;
}

export interface Reply<Op extends AnyOperation> {
  /** Default: the operation's success status. */
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: Op extends Operation<infer _P, infer _Q, infer _B, infer S> ? z.input<S> : never;
}

export interface Route {
  readonly operation: AnyOperation;
  handle(input: Input<AnyOperation>, caller: Caller): Promise<Reply<AnyOperation>>;
}

/** Binds an operation to the use case that carries it out. */
export function route<Op extends AnyOperation>(
  operation: Op,
  handle: (input: Input<Op>, caller: Caller) => Promise<Reply<Op>>,
): Route {
  return { operation, handle: handle as Route['handle'] };
}
