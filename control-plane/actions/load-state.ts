import type {
  AgentRecord,
  DecisionState,
  DirectoryUser,
  KillSwitch,
} from '../../shared/decision/state.ts';
import { revocationId } from '../../shared/passport/lease-passport.ts';
import type { PassportState } from '../../shared/passport/passport-state.ts';
import type { PassportReading } from '../../shared/passport/verify.ts';
import { type Action, type Environment, modes } from '../../shared/vocabulary/action.ts';
import { approvalProof } from '../approvals/approval-proof.ts';
import type { Services } from '../core/services.ts';
import { readPresented } from '../passports/read-passport.ts';
import { validRow, verifyRow } from '../platform/signed-store/verified.ts';
import { compiledPolicies } from '../policies/load-published.ts';
import { agentRowId } from '../records/agent-row-id.ts';
import { toolRecord } from '../records/tool-record.ts';
import { readUsage } from '../usage/read-usage.ts';
import { queryState, type StateRow } from './state-query.ts';

/** Audience of passports for agents that call the control plane directly (contract 2.6). */
export const controlPlaneAudience = 'gateway://agents';

export interface StateRequest {
  readonly action: Action;
  /** Compact JWS. */
  readonly passport?: string | undefined;
  readonly point: DecisionState['point'];
  readonly environment: Environment;
}

/**
 * Loads everything that a decision depends on, in one SQL statement. Only if a budget refers to the
 * tool, a second statement follows.
 */
export async function loadState(
  services: Pick<Services, 'db' | 'pool' | 'clock' | 'usage' | 'guard'>,
  { action, passport, point, environment }: StateRequest,
): Promise<DecisionState> {
  const { tenantId, agentId, userId, tool } = action;
  const reading =
    passport === undefined ? undefined : await readPresented(services, tenantId, passport);
  const claims = reading?.form === 'signed' ? reading.claims : undefined;
  const armed = services.guard.armedIn(tenantId);
  const nowMs = services.clock.now();
  const read = await queryState(services.pool, {
    tenantId,
    agentRowId: agentRowId(agentId),
    userId,
    tool,
    nowMs,
    revocationIds: claims === undefined ? [] : [claims.jti, revocationId(claims.jti)],
    approvalHash: claims?.approval_hash ?? undefined,
    armed,
  });
  services.guard.assertTrusted(tenantId);
  const row = verifiedState(services.guard, read);
  assertNoneMissing(services.guard, row, { tenantId, armedIds: armed.ids });
  const policies = await compiledPolicies(services, tenantId, row.policies);
  const isBudgeted = policies.usage.needsOf(tool, agentId) !== undefined;
  return {
    point,
    audience: controlPlaneAudience,
    tenant: tenantOf(row),
    environment,
    killSwitches: row.kill_switches
      .filter((one) => isArmed(one, { agentId, nowMs }))
      .map(killSwitch),
    agent: agentOf(row),
    agentDisabled: row.agent !== null && row.agent.disabledAt !== null,
    user: userOf(row),
    tool: row.tool === null ? undefined : toolRecord(row.tool),
    passport: reading === undefined ? undefined : passportState(services, reading, row),
    policies,
    usage: isBudgeted ? await readUsage(services, action) : undefined,
  };
}

/**
 * Verifies the rows that a decision depends on. Throws if a row fails its integrity check; the
 * action is then denied.
 */
function verifiedState(guard: Services['guard'], row: StateRow) {
  return {
    ...row,
    tenant: row.tenant && verifyRow(guard, 'tenant', row.tenant),
    kill_switches: row.kill_switches.map((armed) => verifyRow(guard, 'kill_switch', armed)),
    agent: row.agent && verifyRow(guard, 'agent', row.agent),
    user: row.user && verifyRow(guard, 'directory_user', row.user),
    tool: row.tool && verifyRow(guard, 'tool', row.tool),
  };
}

type VerifiedState = ReturnType<typeof verifiedState>;

/** Throws if an armed kill switch has no row: the row was then deleted outside the API. */
function assertNoneMissing(
  guard: Services['guard'],
  { kill_switches: rows, armed_since: since }: VerifiedState,
  { tenantId, armedIds }: { readonly tenantId: string; readonly armedIds: readonly string[] },
): void {
  const present = new Set(rows.map(({ id }) => id));
  const key = [...armedIds, ...since].find((id) => !present.has(id));
  if (key === undefined) return;
  throw guard.forged({ tenantId, table: 'kill_switch', key, found: 'missing' });
}

/**
 * Returns whether a kill switch is armed for the agent. Decides on verified values and not in SQL,
 * because SQL would read columns that may be forged.
 */
function isArmed(
  { disarmedAt, expiresAt, agentId: blocked }: VerifiedState['kill_switches'][number],
  { agentId, nowMs }: { readonly agentId: string; readonly nowMs: number },
): boolean {
  if (disarmedAt !== null || (expiresAt !== null && Number(expiresAt) <= nowMs)) return false;
  return blocked === null || blocked === agentId;
}

function tenantOf({ tenant }: VerifiedState): DecisionState['tenant'] {
  const mode = modes.find((known) => known === tenant?.mode);
  if (tenant === null || mode === undefined)
    throw new Error('the tenant or its mode cannot be read');
  return { id: tenant.id, name: tenant.name, mode };
}

/** Converts a row; a forced mode that cannot be read counts as the strictest mode. */
function killSwitch(row: VerifiedState['kill_switches'][number]): KillSwitch {
  const mode = modes.find((known) => known === row.mode);
  return {
    id: row.id,
    kind: row.kind as KillSwitch['kind'],
    tool: row.tool ?? undefined,
    agentId: row.agentId ?? undefined,
    mode: row.kind === 'force_mode' ? (mode ?? 'strict') : mode,
    reason: row.reason,
    expiresAtMs: row.expiresAt === null ? undefined : Number(row.expiresAt),
  };
}

function agentOf({ agent }: VerifiedState): AgentRecord | undefined {
  if (agent === null) return undefined;
  return {
    id: String(agent.id),
    name: agent.name,
    goal: agent.goal ?? undefined,
    capabilities: agent.capabilities,
  };
}

function userOf({ user }: VerifiedState): DirectoryUser | undefined {
  if (user === null) return undefined;
  return { id: user.id, email: user.email ?? undefined, role: user.role ?? undefined };
}

function passportState(
  services: Pick<Services, 'guard'>,
  reading: PassportReading,
  { approval: found, revoked }: VerifiedState,
): PassportState {
  if (reading.form !== 'signed') return reading;
  const { claims } = reading;
  const eventHash = claims.approval_hash;
  const row =
    eventHash === null || found === null ? undefined : validRow(services.guard, 'approval', found);
  const approval =
    eventHash === null || row === undefined
      ? undefined
      : approvalProof(row, { eventHash, canonical: row.canonical });
  return {
    form: 'signed',
    claims,
    source: 'presented',
    revoked,
    use: 'unclaimed',
    approval,
  };
}
