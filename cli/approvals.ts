import { parseArgs } from 'node:util';
import { SettingsError } from '../shared/base/settings.ts';
import {
  type ApprovalRecord,
  decideApproval,
  getApproval,
  listApprovals,
  revokeGrant,
} from '../shared/contract/approvals.ts';
import { approvalStates, isOpen } from '../shared/vocabulary/approval-states.ts';
import { type GrantScope, grantScopes } from '../shared/vocabulary/grant-terms.ts';
import { apiClient, apiOptions } from './api-client.ts';
import { durationMs } from './duration.ts';
import { ago, span, table, visible } from './table.ts';

export const usage = `Usage: sallyport approvals list [--status STATUS | --all] [--agent ID] [--limit N] [--json]
       sallyport approvals show ID [--json]
       sallyport approvals approve ID [--uses N] [--ttl 1h] [--scope action|tool] [--comment TEXT] [--json]
       sallyport approvals deny ID [--comment TEXT] [--json]
       sallyport approvals revoke ID [--json]

list shows what still waits for a decision. STATUS is one of ${approvalStates.join(', ')}.
approve is good for one call; --uses and --ttl make it a standing grant, as far as the rule's approval.grant
allows: for the same action, or with --scope tool for any that the rules ask about. revoke takes back what is left.
Who decides is the principal of the API key; nobody decides on their own request.
Options of all: --url URL, --key-file FILE.`;

/** `sallyport approvals …`: what waits for a human, and the human's answer. */
export async function approvals([verb, ...args]: readonly string[]): Promise<number> {
  switch (verb) {
    case 'list':
      return list([...args]);
    case 'show':
      return show([...args]);
    case 'approve':
    case 'deny':
      return decide(verb, [...args]);
    case 'revoke':
      return revoke([...args]);
    case '--help':
      console.log(usage);
      return 0;
  }
  console.error(usage);
  return 2;
}

const waiting = approvalStates.filter(isOpen);

async function list(args: string[]): Promise<number> {
  const { values } = parseArgs({
    args,
    options: {
      ...apiOptions,
      status: { type: 'string' },
      all: { type: 'boolean' },
      agent: { type: 'string' },
      limit: { type: 'string', default: '100' },
    },
  });
  const { all, agent, limit, json } = values;
  const status = approvalStates.find((one) => one === values.status);
  if (values.status !== undefined && status === undefined) {
    throw new SettingsError(`--status: must be one of ${approvalStates.join(', ')}.`);
  }
  if (!/^[1-9]\d{0,2}$/.test(limit)) {
    throw new SettingsError('--limit: must be a number from 1 to 999.');
  }
  const states = status === undefined ? (all === true ? [undefined] : waiting) : [status];
  const client = apiClient(values);
  const pages = states.map((state) => {
    const query = { limit, ...(state && { status: state }), ...(agent && { agent_id: agent }) };
    return client.call(listApprovals, { query });
  });
  const found = (await Promise.all(pages)).flatMap(({ approvals: page }) => page);
  const newest = found.sort((one, other) => other.id - one.id).slice(0, Number(limit));
  if (json === true) console.log(JSON.stringify(newest, null, 2));
  else if (newest.length > 0) console.log(queue(newest, Date.now()));
  else console.log(status || all ? 'There is no such approval.' : 'Nothing waits for a decision.');
  return 0;
}

function queue(found: readonly ApprovalRecord[], nowMs: number): string {
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
  return isOpen(status) ? span(Math.max(0, Date.parse(expires_at) - nowMs)) : '-';
}

async function show(args: string[]): Promise<number> {
  const { values, positionals } = parseArgs({ args, options: apiOptions, allowPositionals: true });
  const one = await apiClient(values).call(getApproval, { params: { id: oneId(positionals) } });
  if (values.json === true) console.log(JSON.stringify(one, null, 2));
  else console.log(details(one, Date.now()));
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
    ['beside the arguments (MCP)', one.proposed_mcp && JSON.stringify(one.proposed_mcp)],
    ['changed to', one.effective_args && changedArgs(one)],
    ['needs', `${one.quorum} of role ${one.min_role} or above`],
    ...one.votes.map(({ principal, role, action, comment }) => [
      'vote',
      `${principal} (${role}): ${action}${comment === undefined ? '' : `, "${comment}"`}`,
    ]),
    ['decided by', decided && `${decided}${one.comment === undefined ? '' : `, "${one.comment}"`}`],
    ['good until', one.grant_expires_at],
    ['good for', one.grant?.standing ? standing(one.grant) : undefined],
    ['used', one.used_at],
    ['digest', one.action_digest],
  ];
  return rows
    .flatMap(([name = '', text]) => (text ? [`${name.padEnd(12)}${visible(text)}`] : []))
    .join('\n');
}

function changedArgs({ proposed_args, effective_args }: ApprovalRecord): string | undefined {
  const text = JSON.stringify(effective_args);
  return text === JSON.stringify(proposed_args) ? undefined : text;
}

type Grant = NonNullable<ApprovalRecord['grant']>;

function standing({ scope, uses, uses_spent, revoked_at, revoked_by }: Grant): string {
  const what = scope === 'tool' ? 'the tool' : 'the same action';
  const over = revoked_at === undefined ? '' : `, taken back by ${revoked_by} ${revoked_at}`;
  return `${uses_spent} of ${uses} uses of ${what} spent${over}`;
}

async function revoke(args: string[]): Promise<number> {
  const { values, positionals } = parseArgs({ args, options: apiOptions, allowPositionals: true });
  const answer = await apiClient(values).call(revokeGrant, { params: { id: oneId(positionals) } });
  if (values.json === true) console.log(JSON.stringify(answer, null, 2));
  else console.log(`Approval ${answer.id}: taken back, after ${answer.uses_spent} uses`);
  return 0;
}

interface GrantOptions {
  readonly uses?: string | undefined;
  readonly ttl?: string | undefined;
  readonly scope?: string | undefined;
}

function readGrant(action: 'approve' | 'deny', { uses, ttl, scope }: GrantOptions) {
  if (uses === undefined && ttl === undefined && scope === undefined) return {};
  if (action === 'deny') throw new SettingsError('--uses, --ttl and --scope are for approve.');
  if (uses !== undefined && !/^[1-9]\d{0,3}$/.test(uses)) {
    throw new SettingsError('--uses: must be a number from 1 to 1000.');
  }
  if (scope !== undefined && !grantScopes.includes(scope as GrantScope)) {
    throw new SettingsError(`--scope: must be one of ${grantScopes.join(', ')}.`);
  }
  const ttlSeconds = ttl === undefined ? undefined : durationMs('--ttl', ttl) / 1000;
  return {
    grant: {
      ...(uses === undefined ? {} : { uses: Number(uses) }),
      ...(ttlSeconds === undefined ? {} : { ttl_seconds: ttlSeconds }),
      ...(scope === undefined ? {} : { scope: scope as GrantScope }),
    },
  };
}

async function decide(action: 'approve' | 'deny', args: string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args,
    options: {
      ...apiOptions,
      comment: { type: 'string' },
      uses: { type: 'string' },
      ttl: { type: 'string' },
      scope: { type: 'string' },
    },
    allowPositionals: true,
  });
  const { comment, json } = values;
  const grant = readGrant(action, values);
  const answer = await apiClient(values).call(decideApproval, {
    params: { id: oneId(positionals) },
    body: { action, ...(comment === undefined ? {} : { comment }), ...grant },
  });
  if (json === true) {
    console.log(JSON.stringify(answer, null, 2));
    return 0;
  }
  const { id, status, decided_by, votes_missing, grant_expires_at, evidence_id } = answer;
  const rest = [
    votes_missing > 0 && `${votes_missing} more must agree`,
    grant_expires_at && `good until ${grant_expires_at}`,
    answer.grant?.standing && standing(answer.grant),
    evidence_id,
  ];
  const said = [`Approval ${id}: ${status}, by ${decided_by}`, ...rest.filter(Boolean)];
  console.log(visible(said.join('; ')));
  return 0;
}

function oneId([id, ...others]: readonly string[]): string {
  if (id !== undefined && others.length === 0 && /^[1-9]\d{0,9}$/.test(id)) return id;
  throw new SettingsError(`Name one approval by its id.\n${usage}`);
}
