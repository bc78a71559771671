import { isJsonObject, type JsonObject, type JsonValue } from '../../shared/base/json.ts';
import { errorKindOf } from '../../shared/errors/error-kinds.ts';
import type { RefusalForm } from '../call/recognition.ts';

type McpForm = Extract<RefusalForm, { kind: 'mcp' }>;

/** A response with its HTTP framing. */
export interface McpRefusal {
  readonly status: number;
  readonly contentType: string;
  readonly text: string;
}

interface McpRefusalParts {
  readonly body: JsonObject;
  /** The status of the same refusal over plain HTTP. */
  readonly httpStatus: number;
  /** The `Accept` header of the call. */
  readonly accept: string;
}

/** The member of `_meta` that holds the verdict; MCP requires a reversed domain as prefix. */
export const verdictKey = 'internal.sallyport/decision';

// Codes of JSON-RPC 2.0 (section 5.1); `header_mismatch` is a code of MCP 2026-07-28.
const rpcCodes = {
  parse_error: -32_700,
  invalid_request: -32_600,
  invalid_params: -32_602,
  header_mismatch: -32_020,
} as const;
/** The code of a refusal by policy, outside the range that JSON-RPC reserves (-32768 to -32000). */
export const refusedError = -31_403;

/**
 * Writes a refusal as MCP: a tool result (which the model can read) for `tools/call`, a JSON-RPC
 * error for other methods. The status is 200, because other statuses end a client's session. The
 * exceptions are a message without a usable id, whose refusal no client could match, and headers
 * that disagree with the body, for which the revision requires an HTTP error.
 */
export function mcpRefusal(form: McpForm, parts: McpRefusalParts): McpRefusal {
  const code = String(parts.body.reason_code);
  const message: JsonObject =
    form.tool === undefined || form.id === null
      ? { jsonrpc: '2.0', id: form.id, error: rpcError(parts.body) }
      : { jsonrpc: '2.0', id: form.id, result: toolResult(form, parts.body) };
  const keepsStatus = form.id === null || errorKindOf(code)?.isHttpError === true;
  const status = keepsStatus ? Math.max(parts.httpStatus, 400) : 200;
  const text = JSON.stringify(message);
  return acceptsEventsOnly(parts.accept)
    ? { status, contentType: 'text/event-stream', text: `event: message\ndata: ${text}\n\n` }
    : { status, contentType: 'application/json', text };
}

function rpcError(body: JsonObject): JsonObject {
  return { code: rpcCode(String(body.reason_code)), message: summary(body), data: body };
}

function rpcCode(reasonCode: string): number {
  const rpc = errorKindOf(reasonCode)?.rpc;
  return rpc === undefined ? refusedError : rpcCodes[rpc];
}

function toolResult(form: McpForm, body: JsonObject): JsonObject {
  const content: JsonValue = [{ type: 'text', text: explanation(body) }];
  return {
    ...(form.isStateless ? { resultType: 'complete' } : {}),
    content,
    isError: true,
    // Clients validate structured content against the tool's own outputSchema.
    ...(form.hasOutputSchema ? { _meta: { [verdictKey]: body } } : { structuredContent: body }),
  };
}

/** The refusal's reason and next steps, for a model to read. */
function explanation(body: JsonObject): string {
  const steps = Array.isArray(body.next_steps) ? (body.next_steps as readonly JsonValue[]) : [];
  const todo = steps.map((step) => `- ${String(step)}`).join('\n');
  const said = `${summary(body)}${quotedComment(body)}`;
  return todo === '' ? said : `${said}\nWhat to do:\n${todo}`;
}

/** Marks a human's words as data: quoted, on one line, and attributed. */
function quotedComment({ details }: JsonObject): string {
  const comment = isJsonObject(details) ? details.approver_comment : undefined;
  return typeof comment === 'string' ? `\nThe approver's comment: ${JSON.stringify(comment)}` : '';
}

const words: Readonly<Record<string, string>> = {
  require_approval: 'Waiting for a human decision',
  require_tool_reapproval: 'Waiting for the tool to be approved again',
};

function summary(body: JsonObject): string {
  const word = words[String(body.decision)] ?? 'Denied';
  return `${word}: ${String(body.reason_code)}. ${String(body.error)}`;
}

/**
 * True if a client accepts event streams only. All other clients get JSON, which clients handle
 * best.
 */
function acceptsEventsOnly(accept: string): boolean {
  const types = accept
    .split(',')
    .filter((range) => !/;\s*q=0(?:\.0*)?\s*$/i.test(range))
    .map((range) => (range.split(';', 1)[0] ?? '').trim().toLowerCase());
  if (!types.includes('text/event-stream')) return false;
  return !types.some((type) => ['application/json', 'application/*', '*/*'].includes(type));
}
