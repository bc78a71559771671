import type { z } from 'zod';
import { newId } from '../../shared/base/ids.ts';
import type {
  armKillSwitch as armOperation,
  KillSwitchRecord,
} from '../../shared/contract/kill-switches.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { type ChangeNotes, commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import { idempotent } from '../platform/http/idempotency.ts';
import { claimsOf } from '../platform/signed-store/verified.ts';
import { agentRowId } from '../records/agent-row-id.ts';
import { killSwitchRecordOf } from './list-kill-switches.ts';

type Wanted = Omit<z.output<NonNullable<(typeof armOperation)['body']>>, 'wait_ms'>;

/** Arms a kill switch. With an idempotency key, a repeat gets the first response. */
export async function armKillSwitch(
  services: Services,
  caller: Caller,
  { idempotency_key: key, ...wanted }: Wanted,
): Promise<KillSwitchRecord> {
  if (key === undefined) return arm(services, caller, wanted);
  const { body } = await idempotent(
    { services, caller, operation: 'armKillSwitch', agentId: '', key, payload: wanted },
    async () => ({ status: 201, body: await arm(services, caller, wanted) }),
  );
  return body as KillSwitchRecord;
}

async function arm(
  services: Services,
  { tenantId, principal }: Caller,
  wanted: Omit<Wanted, 'idempotency_key'>,
): Promise<KillSwitchRecord> {
  const { clock } = services;
  const { kind, tool, agent_id: agentId, mode, reason } = wanted;
  const nowMs = clock.now();
  const expiresAt = wanted.expires_at === undefined ? null : new Date(wanted.expires_at);
  const problems = problemsOf(wanted, nowMs);
  if (problems.length > 0) {
    throw new GatewayError('kill_switch.invalid', { message: problems.join(' ') });
  }
  const { result } = await commitChange(services, tenantId, async (_tx, notes) => {
    if (agentId !== undefined) await assertKnown(notes, tenantId, agentId);
    const id = newId('ks', nowMs);
    const row = await notes.rows('kill_switch').create({
      id,
      tenantId,
      kind,
      tool: tool ?? null,
      agentId: agentId ?? null,
      mode: mode ?? null,
      reason,
      armedBy: principal,
      armedAt: new Date(nowMs),
      expiresAt,
    });
    await notes.event({
      type: 'kill_switch.armed',
      chainId: `kill_switches:${id}`,
      agentId,
      tool,
      data: {
        by: principal,
        kill_switch_id: id,
        kind,
        mode,
        reason,
        expires_at: expiresAt?.toISOString(),
      },
    });
    notes.sections('kill_switches');
    return row;
  });
  return killSwitchRecordOf(result, nowMs);
}

/**
 * Returns the problems that would make a kill switch ineffective. Each names the field and the fix.
 */
function problemsOf(
  { kind, tool, agent_id, mode, expires_at }: Omit<Wanted, 'idempotency_key'>,
  nowMs: number,
): string[] {
  const problems: string[] = [];
  const need = (field: string, value: unknown, what: string) => {
    if (value === undefined) problems.push(`${field}: ${kind} needs ${what}.`);
  };
  const refuse = (field: string, value: unknown, instead: string) => {
    if (value !== undefined) problems.push(`${field}: has no meaning for ${kind}; ${instead}.`);
  };
  switch (kind) {
    case 'block_tool':
      need('tool', tool, 'the id of a tool, or a glob such as payments.*');
      refuse('mode', mode, 'it blocks in every mode');
      break;
    case 'block_agent':
      need('agent_id', agent_id, 'the id of an agent');
      refuse('tool', tool, 'to block one tool of one agent use block_tool with agent_id');
      refuse('mode', mode, 'it blocks in every mode');
      break;
    case 'force_mode':
      need('mode', mode, 'warn, enforce or strict');
      break;
  }
  if (expires_at !== undefined && Date.parse(expires_at) <= nowMs) {
    problems.push('expires_at: has passed already; give a later time, or leave it out.');
  }
  return problems;
}

/**
 * Throws if the agent does not exist. Accepts a disabled agent, because it may be enabled while the
 * switch is armed.
 */
async function assertKnown(notes: ChangeNotes, tenantId: string, agentId: string): Promise<void> {
  const id = agentRowId(agentId);
  const count = id === undefined ? 0 : await notes.rows('agent').count({ tenantId, id });
  if (count === 0) throw new GatewayError('agent.not_found');
}

/** Disarms a kill switch permanently; a repeat changes nothing. */
export async function disarmKillSwitch(
  services: Services,
  { tenantId, principal }: Caller,
  id: string,
): Promise<KillSwitchRecord> {
  const nowMs = services.clock.now();
  const { result } = await commitChange(services, tenantId, async (_tx, notes) => {
    const rows = notes.rows('kill_switch');
    const query = { where: { tenantId_id: { tenantId, id } } };
    const found = await rows.findUniqueUnverified(query);
    if (found === null) throw new GatewayError('kill_switch.not_found');
    const changes = { disarmedAt: new Date(nowMs), disarmedBy: principal };
    // A disarmed switch has no effect, so signing a forged one does no harm.
    const disarmed = await rows.retire(found, { disarmedAt: null }, { changes, forged: 'sign' });
    if (disarmed === undefined) return claimsOf((await rows.findUniqueUnverified(query)) ?? found);
    notes.sections('kill_switches');
    await notes.event({
      type: 'kill_switch.disarmed',
      chainId: `kill_switches:${id}`,
      agentId: disarmed.agentId ?? undefined,
      tool: disarmed.tool ?? undefined,
      data: { by: principal, kill_switch_id: id, kind: disarmed.kind },
    });
    return disarmed;
  });
  return killSwitchRecordOf(result, nowMs);
}
