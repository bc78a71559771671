import {
  type ApprovalRecord,
  decideApproval,
  getApproval,
  listApprovals,
  revokeGrant,
} from '../../shared/contract/approvals.ts';
import {
  type ApprovalState,
  approvalStates,
  isOpen,
} from '../../shared/vocabulary/approval-states.ts';
import type { GrantScope } from '../../shared/vocabulary/grant-terms.ts';
import { type ApiOptions, apiClient } from '../support/api-client.ts';
import { ago, counted, printable, printJson, table, timeSpan } from '../support/terminal.ts';

interface Options extends ApiOptions {
  readonly json?: boolean;
}

interface ListOptions extends Options {
  readonly status?: ApprovalState;
  readonly all?: boolean;
  readonly agent?: string;
  readonly limit: number;
}

/** `sallyport approvals list`. */
export async function list(options: ListOptions): Promise<number> {
  const { status, all, agent, limit, json } = options;
  const states =
    status !== undefined ? [status] : all === true ? [undefined] : approvalStates.filter(isOpen);
  const client = apiClient(options);
  const pages = states.map((state) => {
    const query = { limit, ...(state && { status: state }), ...(agent && { agent_id: agent }) };
    return client.call(listApprovals, { query });
  });
  const found = (await Promise.all(pages)).flatMap(({ approvals: page }) => page);
  const newest = found.sort((one, other) => other.id - one.id).slice(0, limit);
  if (json === true) printJson(newest);
  else if (newest.length > 0) console.log(approvalTable(newest, Date.now()));
  else console.log(status || all ? 'No approvals found.' : 'Nothing waits for a decision.');
  return 0;
}

function approvalTable(found: readonly ApprovalRecord[], nowMs: number): string {
  const rows = found.map((one) => [
    String(one.id),
    one.status,
    one.kind === 'tool' ? `tool ${one.tool}` : one.tool,
    one.resource,
    one.agent_id,
    one.user_id,
    one.risk_tier,
    one.reason_code,
    ago(one.requested_at, nowMs),
    timeLeft(one, nowMs),
  ]);
  const head = [
    'ID',
    'STATUS',
    'TOOL',
    'RESOURCE',
    'AGENT',
    'USER',
    'RISK',
    'REASON',
    'ASKED',
    'LEFT',
  ];
  return table(head, rows);
}

function timeLeft({ status, expires_at }: ApprovalRecord, nowMs: number): string {
  return isOpen(status) ? timeSpan(Math.max(0, Date.parse(expires_at) - nowMs)) : '-';
}

/** `sallyport approvals show`. */
export async function show(id: string, options: Options): Promise<number> {
  const approval = await apiClient(options).call(getApproval, { params: { id } });
  if (options.json === true) printJson(approval);
  else console.log(details(approval, Date.now()));
  return 0;
}

function details(one: ApprovalRecord, nowMs: number): string {
  const who = [`agent ${one.agent_id} for ${one.user_id}`, one.goal && `goal: ${one.goal}`];
  const decided = one.decided_by && `${one.decided_by} ${one.decided_at ?? ''}`;
  const rows = [
    [
      'approval',
      `${one.id}, ${one.status}${isOpen(one.status) ? `, ${timeLeft(one, nowMs)} left` : ''}`,
    ],
    ['asks for', one.kind === 'tool' ? `the tool ${one.tool}` : `${one.tool} on ${one.resource}`],
    ['by', who.filter(Boolean).join(', ')],
    ['because', `${one.reason_code}: ${one.summary}`],
    ['risk', one.risk_tier],
    ['arguments', one.proposed_args && JSON.stringify(one.proposed_args)],
    ['MCP members', one.proposed_mcp && JSON.stringify(one.proposed_mcp)],
    ['changed to', one.effective_args && changedArgs(one)],
    ['needs', `${one.quorum} of role ${one.min_role} or above`],
    ...one.votes.map(({ principal, role, action, comment }) => [
      'vote',
      `${principal} (${role}): ${action}${comment === undefined ? '' : `, "${comment}"`}`,
    ]),
    ['decided by', decided && `${decided}${one.comment === undefined ? '' : `, "${one.comment}"`}`],
    ['valid until', one.grant_expires_at],
    ['valid for', one.grant?.standing ? usesOf(one.grant) : undefined],
    ['used', one.used_at],
    ['digest', one.action_digest],
  ];
  return rows
    .flatMap(([name = '', text]) => (text ? [`${name.padEnd(12)}${printable(text)}`] : []))
    .join('\n');
}

function changedArgs({ proposed_args, effective_args }: ApprovalRecord): string | undefined {
  const text = JSON.stringify(effective_args);
  return text === JSON.stringify(proposed_args) ? undefined : text;
}

type Grant = NonNullable<ApprovalRecord['grant']>;

function usesOf({ scope, uses, uses_spent, revoked_at, revoked_by }: Grant): string {
  const what = scope === 'tool' ? 'the tool' : 'the same action';
  const end = revoked_at === undefined ? '' : `, revoked by ${revoked_by} ${revoked_at}`;
  return `${uses_spent} of ${uses} uses of ${what} consumed${end}`;
}

/** `sallyport approvals revoke`. */
export async function revoke(id: string, options: Options): Promise<number> {
  const answer = await apiClient(options).call(revokeGrant, { params: { id } });
  if (options.json === true) printJson(answer);
  else console.log(`Approval ${answer.id}: revoked, after ${counted(answer.uses_spent, 'use')}`);
  return 0;
}

interface DecideOptions extends Options {
  readonly comment?: string;
  readonly uses?: number;
  /** Milliseconds. */
  readonly ttl?: number;
  readonly scope?: GrantScope;
}

/** `sallyport approvals approve` and `deny`. */
export async function decide(
  action: 'approve' | 'deny',
  approvalId: string,
  options: DecideOptions,
): Promise<number> {
  const { comment, json } = options;
  const answer = await apiClient(options).call(decideApproval, {
    params: { id: approvalId },
    body: { action, ...(comment === undefined ? {} : { comment }), ...standingTerms(options) },
  });
  if (json === true) {
    printJson(answer);
    return 0;
  }
  const { id, status, decided_by, votes_missing, grant_expires_at, evidence_id, grant } = answer;
  const parts = [
    `Approval ${id}: ${status}, by ${decided_by}`,
    votes_missing > 0 && `${votes_missing} more must agree`,
    grant_expires_at && `valid until ${grant_expires_at}`,
    grant?.standing && usesOf(grant),
    evidence_id,
  ];
  console.log(printable(parts.filter(Boolean).join('; ')));
  return 0;
}

function standingTerms({ uses, ttl, scope }: DecideOptions) {
  if (uses === undefined && ttl === undefined && scope === undefined) return {};
  return {
    grant: {
      ...(uses === undefined ? {} : { uses }),
      ...(ttl === undefined ? {} : { ttl_seconds: ttl / 1_000 }),
      ...(scope === undefined ? {} : { scope }),
    },
  };
}
