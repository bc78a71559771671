import type { Services } from '../../../control-plane/core/services.ts';
import type { Caller } from '../../../control-plane/platform/access/caller.ts';
import { integrityChain } from '../../../control-plane/platform/integrity/incident-ids.ts';
import { putUser } from '../../../control-plane/users/put-user.ts';
import { ingestTool } from '../../../shared/contract/tools.ts';
import type { EvidenceEvent } from '../../../shared/ledger/event.ts';
import { until } from '../../support/base/until.ts';
import { startApprovalDesk } from '../../support/control-plane/approval-desk.ts';
import { rule } from '../../support/control-plane/gateway.ts';
import { eventsOf } from '../../support/control-plane/services.ts';

/** A call through the API; tests compare its status and reason. */
type Ask = () => Promise<readonly [status: number, reason: string]>;

export interface Forgery {
  readonly table: string;
  /** The id of the row, as events name it. */
  readonly id: string;
  /** Statement that changes the row, executed as the owner of the database. */
  readonly sql: string;
  readonly ask: Ask;
}

/** A gateway with one valid row of each kind that gives authority. */
export async function startForgeryStage() {
  const desk = await startApprovalDesk();
  const { gateway, agentId } = desk;
  const { services } = gateway;
  await gateway.publish(rule('allow', 'free'), rule('allow', 'shaped'));
  const manifest = {
    name: 'shaped',
    version: '1.0.0',
    description: 'A tool',
    riskTier: 'low',
    inputSchema: { type: 'object', properties: {}, additionalProperties: false },
  };
  await gateway.owner.call(ingestTool, { body: { manifest } as never });
  const owner = { tenantId: 'default', principal: 'owner' } as Caller;
  const fields = { email: 'user-1@example.com', role: 'clerk' };
  await putUser(services, owner, { id: 'user-1', fields });
  const post =
    (path: string, body: object, key?: string): Ask =>
    async () => {
      const answer = await gateway.post(path, body, key);
      return [answer.status, String(answer.body?.reason_code ?? '')];
    };
  const action = { agent_id: agentId, user_id: 'user-1', resource: 'r:1', args: {} };
  const decide = (tool = 'free', more: object = {}) =>
    post('/v1/actions/preflight', { ...action, tool, ...more });
  return { desk, gateway, services, agentId, post, decide };
}

export type ForgeryStage = Awaited<ReturnType<typeof startForgeryStage>>;

/**
 * Runs SQL as the database's owner with triggers disabled, as an attacker could; sends the request twice;
 * then restores the table. Returns the responses, and the ledger's incidents about the row.
 */
export async function forge(
  { services }: ForgeryStage,
  { table, id, sql, ask }: Forgery,
  tenantId = 'default',
): Promise<{ readonly answers: readonly string[]; readonly incidents: number }> {
  const { pool } = services;
  const told = async () => (await incidentsOf(services, tenantId, { table, id })).length;
  const before = await told();
  await pool.query(`create table kept as select * from ${table}`);
  try {
    await pool.query(sql);
    // Looked-up rows are cached for a second.
    services.clock.advance(1_100);
    const answers = [(await ask()).join(' '), (await ask()).join(' ')];
    await until(async () => (await told()) > before, { what: `${table} ${id} in the ledger` });
    return { answers, incidents: (await told()) - before };
  } finally {
    await pool.query(`begin; set local session_replication_role = replica;
      delete from ${table}; insert into ${table} select * from kept; drop table kept; commit`);
    services.clock.advance(1_100);
  }
}

/** Returns the ledger's incidents about a row with an invalid signature. */
export async function incidentsOf(
  services: Pick<Services, 'db'>,
  tenantId: string,
  { table, id }: Pick<Forgery, 'table' | 'id'>,
): Promise<readonly EvidenceEvent[]> {
  const events = await eventsOf(services, tenantId);
  return events.filter(
    ({ type, chain_id, data }) =>
      type === 'integrity.forged_row' &&
      chain_id === integrityChain &&
      data.table === table &&
      data.row_id === id,
  );
}
