import type { ServerResponse } from 'node:http';
import type { JsonObject } from '../../shared/base/json.ts';
import { readTheComment, stepsFor } from '../../shared/decision/next-steps.ts';
import { errorKindOf, isErrorCode } from '../../shared/errors/error-kinds.ts';
import { internalHost } from '../base/internal-host-name.ts';
import type { RefusalForm } from '../call/recognition.ts';
import type { Refusal } from '../call/refusal.ts';
import { type McpRefusal, mcpRefusal } from '../mcp/refusal.ts';

/** How long an agent should wait before it requests the human's decision again. */
const approvalRetrySeconds = 5;

/** Writes the response to a call that is not forwarded, in the form that its client understands. */
export function writeRefusal(res: ServerResponse, refusal: Refusal): void {
  if (res.headersSent || res.destroyed) return;
  const body = refusalBody(refusal);
  const headers = {
    ...commonHeaders(res, refusal, String(body.decision)),
    ...refusal.headers,
  };
  if (refusal.form.kind === 'mcp') {
    const accept = res.req.headers.accept ?? '';
    answer(res, headers, mcpRefusal(refusal.form, { body, httpStatus: statusOf(refusal), accept }));
    return;
  }
  answer(res, headers, {
    status: statusOf(refusal),
    contentType: 'application/json',
    text: JSON.stringify(body),
  });
}

/** The JSON-RPC message of a refusal, for a stream that is already open. */
export function refusalMessage(refusal: Refusal): string {
  const { form } = refusal;
  if (form.kind !== 'mcp') throw new TypeError('only an MCP call is answered in a stream');
  const httpStatus = statusOf(refusal);
  return mcpRefusal(form, { body: refusalBody(refusal), httpStatus, accept: '' }).text;
}

function refusalBody(refusal: Refusal): JsonObject {
  const code = refusal.reasonCode;
  const text = errorKindOf(code)?.text ?? 'The action is not allowed.';
  const steps = refusal.nextSteps ?? (isErrorCode(code) ? stepsFor(code) : []);
  const { approvalId, evidenceEventId, details } = refusal;
  return {
    error: refusal.message ?? text,
    reason_code: code,
    decision: refusal.decision ?? 'deny',
    ...(approvalId === undefined ? {} : { approval_request_id: String(approvalId) }),
    ...(evidenceEventId === undefined ? {} : { evidence_event_id: evidenceEventId }),
    next_steps: [...steps, ...approvalSteps(refusal), ...commentSteps(refusal)],
    ...(details === undefined ? {} : { details: { ...details } }),
  };
}

function commentSteps({ details }: Refusal): readonly string[] {
  return details?.approver_comment === undefined ? [] : [readTheComment];
}

function approvalSteps({ decision, approvalId, form }: Refusal): string[] {
  if (decision !== 'require_approval' || approvalId === undefined) return [];
  if (form.kind === 'mcp') return mcpApprovalSteps(approvalId, form);
  return [
    `Wait for the decision: GET ${approvalLocation(approvalId)} through this proxy says how it stands.`,
    'Then repeat the same call, unchanged; it goes through once.',
  ];
}

/** The first steps are for a model that only has tools: it can neither fetch a URL nor wait. */
function mcpApprovalSteps(
  approvalId: string | number,
  { tool, method }: Extract<RefusalForm, { kind: 'mcp' }>,
): string[] {
  return [
    tool === undefined
      ? `Send ${method} again with the same parameters in a minute. It is performed once, as soon as a human has approved it.`
      : 'Call the same tool again with the same arguments in a minute. It is performed once, as soon as a human has approved it.',
    `Until then, continue with other work, or tell the user that approval ${approvalId} waits for a human.`,
    `A program can follow the decision: GET ${approvalLocation(approvalId)} through this proxy.`,
  ];
}

export function approvalLocation(approvalId: string | number): string {
  return `http://${internalHost}/approvals/${approvalId}`;
}

function statusOf(refusal: Refusal): number {
  if (refusal.status !== undefined) return refusal.status;
  if (isPending(refusal)) return 202;
  const kind = errorKindOf(refusal.reasonCode);
  return kind?.ownStatus === true ? kind.status : 403;
}

function isPending({ decision, approvalId }: Refusal): boolean {
  return decision === 'require_approval' && approvalId !== undefined;
}

function commonHeaders(
  res: ServerResponse,
  refusal: Refusal,
  decision: string,
): Record<string, string> {
  const retryAfter =
    refusal.retryAfterSeconds ?? (isPending(refusal) ? approvalRetrySeconds : undefined);
  return {
    'Sallyport-Decision': decision,
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
    ...(retryAfter === undefined ? {} : { 'Retry-After': String(Math.ceil(retryAfter)) }),
    ...(isPending(refusal) ? { Location: approvalLocation(refusal.approvalId ?? '') } : {}),
    // The rest of the body is not read, so the connection cannot be used again.
    ...(res.req.complete ? {} : { Connection: 'close' }),
  };
}

function answer(
  res: ServerResponse,
  headers: Readonly<Record<string, string>>,
  { status, contentType, text }: McpRefusal,
): void {
  const bytes = Buffer.from(text, 'utf8');
  res.writeHead(status, {
    ...headers,
    'Content-Type': contentType,
    'Content-Length': String(bytes.length),
  });
  if (res.req.method === 'HEAD') res.end();
  else res.end(bytes);
}
