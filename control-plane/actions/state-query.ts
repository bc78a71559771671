import type { Pool } from 'pg';
import { signedJson } from '../platform/integrity/signed-json.ts';
import type { Unverified } from '../platform/signed-store/verified.ts';
import { queryPrepared } from '../platform/store/prepared-statement.ts';
import type { SignedRow } from '../platform/store/signed-columns.ts';
import type { StoredTool } from '../records/tool-record.ts';

/** Lookup keys for the state of one action. Every lookup is within the tenant. */
export interface StateKeys {
  readonly tenantId: string;
  /** Undefined if the id does not have the form of a registered agent's id. */
  readonly agentRowId: number | undefined;
  readonly userId: string;
  readonly tool: string;
  readonly nowMs: number;
  /** Ids under which the passport may have been revoked. */
  readonly revocationIds: readonly string[];
  readonly approvalHash: string | undefined;
  /**
   * Armed kill switches known to this process, and the ledger position up to which they are known.
   */
  readonly armed: { readonly ids: readonly string[]; readonly position: number };
}

export type ApprovalRow = SignedRow<'approval'> & {
  /** Text of the ledger row whose hash is the approval's `event_hash`. */
  readonly canonical: string;
};

export interface StateRow {
  readonly tenant: Unverified<SignedRow<'tenant'>> | null;
  /**
   * Kill switches of all agents: those armed in the database, and those that the ledger records as
   * armed. SQL does not filter them by agent, because the agent column may be forged.
   */
  readonly kill_switches: readonly Unverified<SignedRow<'kill_switch'>>[];
  /** Ids of kill switches that the ledger records as armed after the known position. */
  readonly armed_since: readonly string[];
  readonly agent: Unverified<SignedRow<'agent'>> | null;
  readonly user: Unverified<SignedRow<'directory_user'>> | null;
  readonly tool: Unverified<StoredTool> | null;
  readonly policies: readonly (readonly [number, string])[];
  readonly revoked: boolean;
  readonly approval: Unverified<ApprovalRow> | null;
}

const armedSince = `select substr(e.chain_id, ${'kill_switches:'.length + 1}) from evidence_row e
  where e.tenant_id = $1 and e.type = 'kill_switch.armed' and e.position > $9::bigint
    and e.source = 'control-plane' and e.chain_id like 'kill\\_switches:%'`;

/**
 * All parts are read in one SQL statement and thus from one database snapshot, so a decision never
 * combines the old state of a tool with newer policies.
 */
const text = `
select
  (select ${signedJson('tenant', 't')} from tenant t where t.id = $1) as tenant,
  (select coalesce(json_agg(${signedJson('kill_switch', 'k')} order by k.id), '[]')
     from kill_switch k
     where k.tenant_id = $1 and (k.id = any($3::text[])
       or k.id in (${armedSince})
       or (k.disarmed_at is null
           and (k.expires_at is null or k.expires_at > to_timestamp($6::float8 / 1000)))))
    as kill_switches,
  (select coalesce(json_agg(id), '[]') from (${armedSince}) as e (id)) as armed_since,
  (select ${signedJson('agent', 'a')} from agent a
     where a.tenant_id = $1 and a.id = $2) as agent,
  (select ${signedJson('directory_user', 'u')} from directory_user u
     where u.tenant_id = $1 and u.id = $4) as user,
  (select ${signedJson('tool', 't', ["'approvedManifest', v.manifest"])}
     from tool t
     left join tool_version v
       on v.tenant_id = t.tenant_id and v.name = t.name and v.hash = t.approved_hash
     where t.tenant_id = $1 and t.name = $5) as tool,
  (select coalesce(json_agg(json_build_array(id, policy_hash) order by id), '[]')
     from policy where tenant_id = $1 and lifecycle = 'published') as policies,
  exists (select 1 from passport_revocation
     where tenant_id = $1 and jti = any($7::text[])) as revoked,
  (select ${signedJson('approval', 'a', ["'canonical', e.canonical"])}
     from approval a
     join evidence_row e on e.tenant_id = a.tenant_id and e.event_id = a.event_id
     where a.tenant_id = $1 and a.event_hash = $8 and e.event_hash = $8
     limit 1) as approval`;

export async function queryState(pool: Pool, keys: StateKeys): Promise<StateRow> {
  const [row] = await queryPrepared<StateRow>(pool, { name: 'decision-state', text }, [
    keys.tenantId,
    keys.agentRowId ?? null,
    keys.armed.ids,
    keys.userId,
    keys.tool,
    keys.nowMs,
    keys.revocationIds,
    keys.approvalHash ?? null,
    keys.armed.position,
  ]);
  if (row === undefined) throw new Error('the state query returned no row');
  return row;
}
