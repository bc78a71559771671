import type { JsonObject } from '../../shared/base/json.ts';
import type { JsonSizeLimits } from '../../shared/base/strict-json.ts';
import type { Binding } from '../../shared/binding/binding.ts';
import type { BindingIndex } from '../../shared/binding/match.ts';
import type { ErrorCode } from '../../shared/errors/error-kinds.ts';
import { toGatewayError } from '../../shared/errors/gateway-error.ts';
import type { Outgoing } from '../../shared/upstream/outgoing.ts';
import type { BufferBudget } from './buffer-budget.ts';

/** How a refusal must look so that the agent's client survives it and its model can act on it. */
export type RefusalForm =
  | { readonly kind: 'http' }
  | {
      readonly kind: 'mcp';
      /** The JSON-RPC id of the call; null when it could not be read, or there is none. */
      readonly id: string | number | null;
      readonly method: string;
      /** `tools/call` is refused by a tool result, every other method by a JSON-RPC error. */
      readonly tool?: string | undefined;
      /** The tool has an `outputSchema`: the verdict goes into `_meta`. */
      readonly hasOutputSchema?: boolean | undefined;
      /** Revision 2026-07-28 or later: results carry a `resultType`. */
      readonly isStateless?: boolean | undefined;
    };

/** A tool call: to be decided, and performed only in the form that was judged. */
export interface RecognisedAction {
  readonly kind: 'action';
  /** Undefined on a host without bindings: the body is opaque and no credential is injected. */
  readonly binding?: Binding | undefined;
  readonly tool: string;
  readonly resource: string;
  readonly args: JsonObject;
  /** The judged members of an MCP message besides its arguments. */
  readonly mcp?: JsonObject | undefined;
  readonly form: RefusalForm;
  /** Hints the agent sent: the passport it presents, its goal, an idempotency key. */
  readonly hints: {
    readonly passport?: string | undefined;
    readonly goal?: string | undefined;
    readonly idempotencyKey?: string | undefined;
    /** How long it would wait for a human, in seconds (RFC 7240, `Prefer: wait=N`). */
    readonly waitSeconds?: number | undefined;
    /** Under which an MCP client wants to hear of progress. */
    readonly progressToken?: string | number | undefined;
  };
  /** The resource of the call with these arguments; `resource` is that of `args`. */
  resourceOf(args: JsonObject): string;
  /**
   * Builds the request from the judged arguments, never from the bytes that came in. Throws a
   * GatewayError for other arguments than `args` that cannot be written as such a request.
   */
  build(args: JsonObject): Outgoing;
  /** For an answer that the server waits for: what it receives if the answer is refused. */
  readonly insteadOf?: (error: { readonly code: number; readonly message: string }) => Outgoing;
}

/** Passed on without a decision on arguments: MCP handshake, lists and notifications; passthrough hosts. */
export interface RecognisedPass {
  readonly kind: 'pass';
  readonly binding: Binding;
  /** The kind of message, for the record: `passthrough`, `mcp/initialize`, `mcp/tools/list`, … */
  readonly what: string;
  /** How to refuse it, should something else than its arguments forbid it. */
  readonly form: RefusalForm;
  readonly outgoing: Outgoing;
}

export interface RecognisedRefusal {
  readonly kind: 'refusal';
  readonly code: ErrorCode;
  readonly message: string;
  readonly form: RefusalForm;
  /** The exception, if it was unexpected; for the log. */
  readonly cause?: unknown;
}

export type Recognition = RecognisedAction | RecognisedPass | RecognisedRefusal;

export interface RecogniseDeps {
  readonly index: BindingIndex;
  /** Whether the approved manifest of a tool has an `outputSchema`. */
  readonly toolHasOutputSchema: (tool: string) => boolean;
  readonly limits: RecogniseLimits;
  /** Bounds the bodies of all calls together; undefined: they are not bounded. */
  readonly buffers?: BufferBudget | undefined;
}

export interface RecogniseLimits {
  /** Bodies of bound calls, in bytes. */
  readonly bodyBytesMax: number;
  /** Levels of nesting in a JSON body. */
  readonly depthMax: number;
  /** Size limits of one JSON body. */
  readonly size: JsonSizeLimits;
}

/** Anything thrown while a request was read, as a refusal in the form its client understands. */
export function refusalOf(error: unknown, form: RefusalForm): RecognisedRefusal {
  const { code, message } = toGatewayError(error);
  const refusal = { kind: 'refusal', code, message, form } as const;
  return code === 'internal.unexpected' ? { ...refusal, cause: error } : refusal;
}
