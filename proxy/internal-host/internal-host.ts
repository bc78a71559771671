import type { ServerResponse } from 'node:http';
import type { JsonObject } from '../../shared/base/json.ts';
import { readTheComment, stepsFor } from '../../shared/decision/next-steps.ts';
import type { Identity } from '../base/identity.ts';
import type { Exchange } from '../call/exchange.ts';
import type { OpenedApprovals } from '../replica/opened-approvals.ts';
import type { Replica } from '../replica/replica.ts';
import type { UsageCounter } from '../replica/usage-counter.ts';
import type { Authority } from '../tls/authority.ts';
import { agentManifest } from './agent-manifest.ts';

/**
 * The status of an approval, with the part of the approver's comment that is meant for the agent.
 */
export interface ApprovalView {
  readonly status: string;
  /** RFC 3339. */
  readonly expiresAt?: string | undefined;
  /**
   * The approver's redacted comment: why the action was denied, or which information is missing.
   */
  readonly comment?: string | undefined;
}

export interface InternalHostDeps {
  /** An approval of this sidecar's agent; undefined for any other. */
  readonly approval: (id: number) => ApprovalView | undefined;
  /** The agent's manifest (see `agentManifest`). */
  readonly manifest: () => JsonObject;
  /** The local authority's certificate, PEM. */
  readonly caCertificate: () => string;
}

interface Answer {
  readonly status: number;
  readonly type: string;
  readonly text: string;
}

/**
 * Answers a request to `http://sallyport.internal/`. Accepts GET and HEAD only; requests change
 * nothing.
 */
export function answerInternal(
  exchange: Pick<Exchange, 'method' | 'target' | 'res'>,
  deps: InternalHostDeps,
): void {
  const { method, res } = exchange;
  if (method !== 'GET' && method !== 'HEAD') {
    res.setHeader('Allow', 'GET, HEAD');
    send(res, problem(405, 'request.method_not_allowed', 'This path answers GET only.'));
    return;
  }
  send(res, answerTo(exchange.target, deps));
}

function answerTo(target: string, deps: InternalHostDeps): Answer {
  if (target === '/manifest') return json(200, deps.manifest());
  if (target === '/healthz') return json(200, { status: 'ok' });
  if (target === '/ca.crt') {
    return { status: 200, type: 'application/x-pem-file', text: deps.caCertificate() };
  }
  const id = /^\/approvals\/([1-9]\d{0,14})$/.exec(target)?.[1];
  const approval = id === undefined ? undefined : deps.approval(Number(id));
  if (id !== undefined && approval === undefined) {
    return problem(404, 'approval.not_found', 'The approval does not exist for this agent.');
  }
  return approval === undefined
    ? problem(
        404,
        'request.not_found',
        'Here are /approvals/{id}, /manifest, /ca.crt and /healthz.',
      )
    : json(200, approvalBody(id ?? '', approval));
}

function approvalBody(id: string, { status, expiresAt, comment }: ApprovalView): JsonObject {
  const details = comment === undefined ? {} : { details: { approver_comment: comment } };
  const steps = status === 'denied' ? [...stepsFor('approval.denied')] : [];
  const nextSteps = comment === undefined ? steps : [...steps, readTheComment];
  return {
    id,
    status,
    ...(expiresAt === undefined ? {} : { expires_at: expiresAt }),
    ...(nextSteps.length === 0 ? {} : { next_steps: nextSteps }),
    ...details,
  };
}

function json(status: number, body: JsonObject): Answer {
  return { status, type: 'application/json', text: JSON.stringify(body) };
}

function problem(status: number, reasonCode: string, error: string): Answer {
  return json(status, { error, reason_code: reasonCode });
}

function send(res: ServerResponse, { status, type, text }: Answer): void {
  if (res.headersSent || res.destroyed) return;
  const bytes = Buffer.from(text, 'utf8');
  res.writeHead(status, {
    'Content-Type': type,
    'Content-Length': String(bytes.length),
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
    ...(res.req.complete ? {} : { Connection: 'close' }),
  });
  if (res.req.method === 'HEAD') res.end();
  else res.end(bytes);
}

/** The data for the internal host's responses, read from the replica on each request. */
export function internalFacts({
  replica,
  openedApprovals,
  identity,
  authority,
  usage,
}: {
  readonly replica: Replica;
  readonly openedApprovals: OpenedApprovals;
  readonly identity: Identity;
  readonly authority: Authority;
  readonly usage: UsageCounter;
}): InternalHostDeps {
  return {
    approval(id) {
      const approval = openedApprovals.standing(id);
      if (approval === undefined) return undefined;
      const { status, expiresAtMs, comment } = approval;
      return { status, expiresAt: new Date(expiresAtMs).toISOString(), comment };
    },
    manifest: () => agentManifest({ replica, identity, usage }),
    caCertificate: () => authority.certPem,
  };
}
