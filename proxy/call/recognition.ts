import type { JsonObject } from '../../shared/base/json.ts';
import type { JsonSizeLimits } from '../../shared/base/strict-json.ts';
import type { Binding } from '../../shared/binding/binding.ts';
import type { BindingIndex } from '../../shared/binding/match.ts';
import type { ErrorCode } from '../../shared/errors/error-kinds.ts';
import { toGatewayError } from '../../shared/errors/gateway-error.ts';
import type { Outgoing } from '../../shared/upstream/outgoing.ts';
import type { BufferBudget } from './buffer-budget.ts';

/** The form of a refusal that the agent's client can parse and its model can act on. */
export type RefusalForm =
  | { readonly kind: 'http' }
  | {
      readonly kind: 'mcp';
      /** The JSON-RPC id of the call; null if it is missing or unreadable. */
      readonly id: string | number | null;
      readonly method: string;
      /**
       * Set for `tools/call`, which is refused with a tool result; other methods get a JSON-RPC
       * error.
       */
      readonly tool?: string | undefined;
      /** True if the tool has an `outputSchema`; the verdict then goes into `_meta`. */
      readonly hasOutputSchema?: boolean | undefined;
      /** True for revision 2026-07-28 or later, in which results carry a `resultType`. */
      readonly isStateless?: boolean | undefined;
    };

/** A call that needs a decision, and is performed only in the form that was judged. */
export interface RecognisedAction {
  readonly kind: 'action';
  /** Undefined on a host without bindings: the body is opaque and no credential is injected. */
  readonly binding?: Binding | undefined;
  readonly tool: string;
  readonly resource: string;
  readonly args: JsonObject;
  /** The judged members of an MCP message other than its arguments. */
  readonly mcp?: JsonObject | undefined;
  readonly form: RefusalForm;
  /** Hints that the agent sent with the call, for example its passport and its goal. */
  readonly hints: {
    readonly passport?: string | undefined;
    readonly goal?: string | undefined;
    readonly idempotencyKey?: string | undefined;
    /** How long the agent would wait for a human, in seconds (RFC 7240, `Prefer: wait=N`). */
    readonly waitSeconds?: number | undefined;
    /** The token with which an MCP client requested progress notifications. */
    readonly progressToken?: string | number | undefined;
  };
  /**
   * Returns the resource that the call has with these arguments; for `args`, this is `resource`.
   */
  resourceOf(args: JsonObject): string;
  /**
   * Builds the request from judged arguments, never from the received bytes. Throws a GatewayError
   * if arguments other than `args` cannot be written as a request.
   */
  build(args: JsonObject): Outgoing;
  /**
   * Set for a client's response to an MCP server's question. Builds the error that the server
   * receives if the response is refused.
   */
  readonly insteadOf?: (error: { readonly code: number; readonly message: string }) => Outgoing;
}

/**
 * A request that is forwarded without a decision on arguments: MCP handshakes, lists and
 * notifications, and all requests to passthrough hosts.
 */
export interface RecognisedPass {
  readonly kind: 'pass';
  readonly binding: Binding;
  /** The kind of message, for the record: `passthrough`, `mcp/initialize`, `mcp/tools/list`, … */
  readonly what: string;
  /** The form of a refusal, for example by a kill switch. */
  readonly form: RefusalForm;
  readonly outgoing: Outgoing;
}

export interface RecognisedRefusal {
  readonly kind: 'refusal';
  readonly code: ErrorCode;
  readonly message: string;
  readonly form: RefusalForm;
  /** The exception that caused an unexpected refusal; for the log. */
  readonly cause?: unknown;
}

export type Recognition = RecognisedAction | RecognisedPass | RecognisedRefusal;

export interface RecogniseDeps {
  readonly index: BindingIndex;
  /** Whether the approved manifest of a tool has an `outputSchema`. */
  readonly toolHasOutputSchema: (tool: string) => boolean;
  readonly limits: RecogniseLimits;
  /** Limits the bodies of all calls together; no limit if undefined. */
  readonly buffers?: BufferBudget | undefined;
}

export interface RecogniseLimits {
  /** The largest body of a bound call, in bytes. */
  readonly bodyBytesMax: number;
  /** Levels of nesting in a JSON body. */
  readonly depthMax: number;
  /** Size limits of one JSON body. */
  readonly size: JsonSizeLimits;
}

/** Converts an error that was thrown while a request was read to a refusal in the client's form. */
export function refusalOf(error: unknown, form: RefusalForm): RecognisedRefusal {
  const { code, message } = toGatewayError(error);
  const refusal = { kind: 'refusal', code, message, form } as const;
  return code === 'internal.unexpected' ? { ...refusal, cause: error } : refusal;
}
