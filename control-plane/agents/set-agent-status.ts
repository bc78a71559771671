import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { refreshGraceMs } from '../../shared/passport/single-use-claim.ts';
import { type ChangeNotes, commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import { agentChain } from '../ledger/sealing/new-event.ts';
import type { Caller } from '../platform/access/caller.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { Agent } from '../platform/store/generated/client.ts';
import { lockFor, type Transaction } from '../platform/store/transaction.ts';
import { sectionsOfSidecars } from './sections-of-sidecars.ts';

interface StatusChange {
  readonly id: number;
  readonly disabled: boolean;
  readonly reason?: string | undefined;
}

/** The event lists at most this many revoked jtis; the others are only counted. */
const jtisNamedMax = 1000;

/**
 * Disables or enables an agent. Disabling revokes the passports issued to the agent, and enabling
 * does not restore them. Leases and grants are not revoked, because only this agent can use them,
 * and a disabled agent cannot act.
 */
export async function setAgentStatus(
  services: Services,
  caller: Caller,
  change: StatusChange,
): Promise<Verified<Agent>> {
  const { tenantId } = caller;
  // A disabled agent must not be able to enable itself.
  if (caller.agentId !== undefined) {
    throw new GatewayError('agent.mismatch', {
      message: 'A key that is bound to an agent neither disables nor enables agents.',
    });
  }
  const { result } = await commitChange(services, tenantId, async (tx, notes) => {
    await lockFor(tx, tenantId, 'agents');
    const { id, disabled } = change;
    const agents = notes.rows('agent');
    const known = await agents.findUnique({ where: { tenantId_id: { tenantId, id } } });
    if (known === null) throw new GatewayError('agent.not_found');
    if (!disabled) assertMayEnable(known, caller.role);
    if (!isChange(known, caller.role, disabled)) return known;
    const agent = await agents.update(known, changesOf(services, { caller, known, change }));
    notes.sections('agents', 'revocations', ...(await sectionsOfSidecars(notes, agent)));
    await note(tx, notes, { agent, by: caller.principal, change, services });
    return agent;
  });
  return result;
}

/** Roles that can disable agents, lowest first. */
const disablers: readonly string[] = ['developer', 'admin', 'owner'];

/**
 * Returns the rank of the role that disabled the agent, or -1 if the agent is enabled. If no role
 * is recorded, assumes an owner.
 */
function disablerRank({ disabledAt, disabledByRole }: Verified<Agent>): number {
  return disabledAt === null ? -1 : disablers.indexOf(disabledByRole ?? 'owner');
}

function assertMayEnable(agent: Verified<Agent>, role: string): void {
  if (disablers.indexOf(role) >= disablerRank(agent)) return;
  const required = agent.disabledByRole ?? 'owner';
  throw new GatewayError('agent.disabled_by_higher_role', {
    message: `The agent ${agent.name} was disabled by the role ${required}; ask for that role, or a higher one, to enable it.`,
  });
}

/**
 * Disabling an already disabled agent is a change only if the caller's role is higher than the role
 * that disabled the agent.
 */
function isChange(agent: Verified<Agent>, role: string, disabled: boolean): boolean {
  const isDisabled = agent.disabledAt !== null;
  return isDisabled !== disabled || (disabled && disablers.indexOf(role) > disablerRank(agent));
}

interface Setting {
  readonly caller: Caller;
  readonly known: Verified<Agent>;
  readonly change: StatusChange;
}

function changesOf(
  { clock }: Pick<Services, 'clock'>,
  { caller, known, change: { disabled, reason } }: Setting,
) {
  const now = new Date(clock.now());
  return {
    disabledAt: disabled ? (known.disabledAt ?? now) : null,
    disabledBy: disabled ? caller.principal : null,
    disabledByRole: disabled ? caller.role : null,
    disabledReason: (disabled ? reason : undefined) ?? null,
    updatedAt: now,
  };
}

interface Noting {
  readonly agent: Verified<Agent>;
  readonly by: string;
  readonly change: StatusChange;
  readonly services: Pick<Services, 'clock'>;
}

async function note(
  tx: Transaction,
  notes: ChangeNotes,
  { agent, by, change: { disabled, reason }, services }: Noting,
): Promise<void> {
  const agentId = String(agent.id);
  const jtis = disabled ? await revokeIssued(tx, { agent, by, nowMs: services.clock.now() }) : [];
  const revoked = {
    revoked_jtis: jtis.slice(0, jtisNamedMax),
    revoked_passports: jtis.length,
  };
  await notes.event({
    type: disabled ? 'agent.disabled' : 'agent.enabled',
    chainId: agentChain(agentId),
    agentId,
    data: { by, name: agent.name, reason, ...(disabled ? revoked : {}) },
  });
}

/**
 * Revokes passports that are valid or could be refreshed later. Issuing a passport locks the
 * agent's row, so no passport is issued meanwhile.
 */
async function revokeIssued(
  tx: Transaction,
  {
    agent: { tenantId, id },
    by,
    nowMs,
  }: { readonly agent: Verified<Agent>; readonly by: string; readonly nowMs: number },
): Promise<readonly string[]> {
  const now = new Date(nowMs);
  const rows = await tx.$queryRaw<{ jti: string }[]>`
    insert into passport_revocation (tenant_id, jti, reason, revoked_by, revoked_at, expires_at)
    select tenant_id, jti, 'agent disabled', ${by}, ${now}, expires_at from passport
    where tenant_id = ${tenantId} and agent_id = ${String(id)} and kind = 'agent'
      and expires_at > ${new Date(nowMs - refreshGraceMs)}
    on conflict do nothing returning jti`;
  return rows.map(({ jti }) => jti).sort();
}
