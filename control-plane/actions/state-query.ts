import type { Pool } from 'pg';
import { sealErrorKind } from '../evidence/seal-error.ts';
import type { StoredTool } from '../tools/tool-record.ts';

/** What a decision needs to know about one action; everything is looked up within the tenant. */
export interface StateKeys {
  readonly tenantId: string;
  /** Undefined when the id has not the form of a registered agent's. */
  readonly agentRowId: number | undefined;
  readonly agentId: string;
  readonly userId: string;
  readonly tool: string;
  readonly nowMs: number;
  /** Under which a passport, if one was given, may have been revoked. */
  readonly revocationIds: readonly string[];
  readonly approvalHash: string | undefined;
}

export interface ApprovalRow {
  readonly id: number;
  readonly used: boolean;
  readonly revoked: boolean;
  /** The ledger row that `event_hash` names. */
  readonly canonical: string;
}

export interface StateRow {
  readonly tenant: { readonly id: string; readonly name: string; readonly mode: string } | null;
  readonly kill_switches: readonly {
    readonly id: string;
    readonly kind: string;
    readonly tool: string | null;
    readonly agent_id: string | null;
    readonly mode: string | null;
    readonly reason: string;
    readonly expires_at_ms: number | null;
  }[];
  readonly agent: {
    readonly id: number;
    readonly name: string;
    readonly goal: string | null;
    readonly capabilities: readonly string[];
    readonly disabled: boolean;
  } | null;
  readonly user: {
    readonly id: string;
    readonly email: string | null;
    readonly role: string | null;
  } | null;
  readonly tool: StoredTool | null;
  readonly policies: readonly (readonly [number, string])[];
  readonly revoked: boolean;
  readonly approval: ApprovalRow | null;
}

/**
 * One statement, and so one round trip and one view of the database: a decision is never made
 * from a tool of before a change and policies of after it.
 */
const statement = `
select
  (select row_to_json(t) from (select id, name, mode from tenant where id = $1) t) as tenant,
  (select coalesce(json_agg(k order by k.id), '[]') from (
     select id, kind, tool, agent_id, mode, reason,
            (extract(epoch from expires_at) * 1000)::float8 as expires_at_ms
     from kill_switch
     where tenant_id = $1 and disarmed_at is null
       and (expires_at is null or expires_at > to_timestamp($6::float8 / 1000))
       and (agent_id is null or agent_id = $3)) k) as kill_switches,
  (select row_to_json(a) from (
     select id, name, goal, capabilities, disabled_at is not null as disabled
     from agent where tenant_id = $1 and id = $2) a) as agent,
  (select row_to_json(u) from (
     select id, email, role from directory_user where tenant_id = $1 and id = $4) u) as user,
  (select row_to_json(t) from (
     select t.name, t.manifest_hash, t.approved_hash, t.approval_status, t.risk_tier,
            t.drift_reason, v.manifest as approved_manifest
     from tool t
     left join tool_version v
       on v.tenant_id = t.tenant_id and v.name = t.name and v.hash = t.approved_hash
     where t.tenant_id = $1 and t.name = $5) t) as tool,
  (select coalesce(json_agg(json_build_array(id, policy_hash) order by id), '[]')
     from policy where tenant_id = $1 and lifecycle = 'published') as policies,
  exists (select 1 from passport_revocation
     where tenant_id = $1 and jti = any($7::text[])) as revoked,
  (select row_to_json(p) from (
     select a.id, a.used_at is not null as used, a.grant_revoked_at is not null as revoked,
            e.canonical
     from approval a
     join evidence_row e on e.tenant_id = a.tenant_id and e.event_id = a.event_id
     where a.tenant_id = $1 and a.event_hash = $8 and e.event_hash = $8
     limit 1) p) as approval`;

/**
 * Pools whose connections share a session, as those of the embedded database and of poolers do: a
 * plan kept under a name outlives its connection there, and is in the next one's way.
 */
const withoutPlans = new WeakSet<Pool>();

async function ask(pool: Pool, values: unknown[]): Promise<readonly StateRow[]> {
  if (!withoutPlans.has(pool)) {
    try {
      return (await pool.query<StateRow>({ name: 'decision-state', text: statement, values })).rows;
    } catch (error) {
      if (sealErrorKind(error) !== 'plan') throw error;
      withoutPlans.add(pool);
    }
  }
  return (await pool.query<StateRow>({ text: statement, values })).rows;
}

export async function queryState(pool: Pool, keys: StateKeys): Promise<StateRow> {
  const [row] = await ask(pool, [
    keys.tenantId,
    keys.agentRowId ?? null,
    keys.agentId,
    keys.userId,
    keys.tool,
    keys.nowMs,
    keys.revocationIds,
    keys.approvalHash ?? null,
  ]);
  if (row === undefined) throw new Error('the state query gave no row');
  return row;
}
