import { parseArgs } from 'node:util';
import { approvalStates, isOpen } from '../shared/approval/states.ts';
import {
  type ApprovalRecord,
  decideApproval,
  listApprovals,
} from '../shared/contract/approvals.ts';
import type { Client } from '../shared/contract/client.ts';
import { SettingsError } from '../shared/settings.ts';
import { apiClient, apiOptions } from './api-client.ts';
import { ago, span, table, visible } from './table.ts';

export const usage = `Usage: sallyport approvals list [--status STATUS | --all] [--agent ID] [--limit N] [--json]
       sallyport approvals show ID [--json]
       sallyport approvals approve ID [--comment TEXT] [--json]
       sallyport approvals deny ID [--comment TEXT] [--json]

list shows what still waits for a decision. STATUS is one of ${approvalStates.join(', ')}.
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
  const one = await findApproval(apiClient(values), oneId(positionals));
  if (values.json === true) console.log(JSON.stringify(one, null, 2));
  else console.log(details(one, Date.now()));
  return 0;
}

/** Pages come newest first. */
async function findApproval(client: Client, id: string): Promise<ApprovalRecord> {
  let cursor: string | undefined;
  do {
    const query = { limit: 1000, ...(cursor === undefined ? {} : { cursor }) };
    const { approvals: page, next_cursor } = await client.call(listApprovals, { query });
    const found = page.find((one) => String(one.id) === id);
    if (found !== undefined) return found;
    const passed = (page.at(-1)?.id ?? 0) < Number(id);
    cursor = passed ? undefined : (next_cursor ?? undefined);
  } while (cursor !== undefined);
  throw new SettingsError(`There is no approval ${id}.`);
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
    ['changed to', one.effective_args && changedArgs(one)],
    ['needs', `${one.quorum} of role ${one.min_role} or above`],
    ...one.votes.map(({ principal, role, action, comment }) => [
      'vote',
      `${principal} (${role}): ${action}${comment === undefined ? '' : `, "${comment}"`}`,
    ]),
    ['decided by', decided && `${decided}${one.comment === undefined ? '' : `, "${one.comment}"`}`],
    ['good until', one.grant_expires_at],
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

async function decide(action: 'approve' | 'deny', args: string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args,
    options: { ...apiOptions, comment: { type: 'string' } },
    allowPositionals: true,
  });
  const { comment, json } = values;
  const answer = await apiClient(values).call(decideApproval, {
    params: { id: oneId(positionals) },
    body: { action, ...(comment === undefined ? {} : { comment }) },
  });
  if (json === true) {
    console.log(JSON.stringify(answer, null, 2));
    return 0;
  }
  const { id, status, decided_by, votes_missing, grant_expires_at, evidence_id } = answer;
  const rest = [
    votes_missing > 0 && `${votes_missing} more must agree`,
    grant_expires_at && `good until ${grant_expires_at}`,
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
