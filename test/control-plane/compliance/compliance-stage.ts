import { complianceRoutes } from '../../../control-plane/compliance/routes.ts';
import { decideApproval } from '../../../shared/contract/approvals.ts';
import {
  type ControlId,
  type ControlReason,
  type ControlReport,
  getCompliance,
} from '../../../shared/contract/compliance.ts';
import { drainDeliveries, putWebhook } from '../../../shared/contract/deliveries.ts';
import { ingestTool } from '../../../shared/contract/tools.ts';
import { startApi } from '../../support/control-plane/api.ts';
import { roomyLimits } from '../../support/control-plane/gateway.ts';
import { tamper } from '../../support/ledger/ledger.ts';
import { startUpstream } from '../../support/sidecar/upstream.ts';
import { preflightStage } from '../actions/preflight-stage.ts';

const env = { SALLYPORT_ALLOW_PRIVATE: '127.0.0.0/8' };
const others = [
  'credential',
  'signing_key',
  'install',
  'delivery',
  'approval',
  'evidence_salt',
  'tenant',
  'policy',
  'tool',
  'tool_version',
  'kill_switch',
  'api_key',
];

/** Returns the tables to restore: those that the statements name, and those that record ledger damage. */
function tablesIn(statements: readonly string[]): readonly string[] {
  const isLedger = changesLedger(statements);
  const told = isLedger ? ['evidence_verification', 'delivery'] : [];
  const named = others.filter((name) =>
    statements.some((sql) => new RegExp(`\\b${name}\\b`).test(sql)),
  );
  return [...new Set([...named, ...told])];
}

const changesLedger = (statements: readonly string[]) =>
  statements.some((sql) => sql.includes('evidence_row'));

/** Restores only the ledger rows from before the damage; rows that were sealed since then remain. */
const ledgerBack = [
  `delete from evidence_row as row using before_ledger as before
    where row.tenant_id = before.tenant_id and row.position = before.position`,
  'insert into evidence_row select * from before_ledger',
  'drop table before_ledger',
];

/**
 * A tenant in which all six controls pass: a policy, tools that were approved and used, a request
 * that another person decided, and a notified webhook.
 */
export async function complianceStage() {
  const stage = await preflightStage({ env });
  const { gateway } = stage;
  const { services, owner } = gateway;
  const receiver = await startUpstream();
  for (const name of ['pay', 'mail', 'shell', 'refund']) {
    await owner.call(ingestTool, { body: { manifest: { name, riskTier: 'low' } } });
  }
  const body = { url: `http://127.0.0.1:${receiver.port}/hook` };
  await owner.call(putWebhook, { body });
  for (const tool of ['pay', 'mail', 'shell', 'pay']) await stage.ask({ tool });
  const { approval_request_id } = await stage.ask({ tool: 'refund' });
  const anna = await gateway.as({ role: 'approver', principal: 'anna' });
  const params = { id: Number(approval_request_id) };
  await anna.call(decideApproval, { params, body: { action: 'approve' } });
  await owner.call(drainDeliveries, { body: {} });
  // A report gives each decision one minute to be sealed.
  services.clock.advance(120_000);
  const api = await startApi(complianceRoutes(services), services, { limits: roomyLimits });
  const auditor = await api.client(await api.key({ role: 'auditor' }));
  const databaseUrl = services.config.databaseUrl ?? '';
  return {
    ...stage,
    api,
    auditor,
    approvalId: params.id,
    report: () => auditor.call(getCompliance),
    control: async (id: ControlId) => {
      // The API accepts sixty report requests per minute.
      services.clock.advance(1_500);
      const { controls } = await auditor.call(getCompliance);
      const found = controls.find((one) => one.id === id);
      if (found === undefined) throw new Error(`no ${id} in the report`);
      return found;
    },
    /** Runs SQL as the owner of the database, runs the callback, and then undoes the damage. */
    damaged: async <Result>(
      statements: readonly string[],
      look: () => Promise<Result>,
    ): Promise<Result> => {
      const tables = tablesIn(statements);
      const isLedger = changesLedger(statements);
      const copies = [
        ...tables.map((name) => `create table before_${name} as table ${name}`),
        ...(isLedger ? ['create table before_ledger as table evidence_row'] : []),
      ];
      await tamper(databaseUrl, 'begin', ...copies, ...statements, 'commit');
      try {
        return await look();
      } finally {
        const back = tables.flatMap((name) => [
          `delete from ${name}`,
          `insert into ${name} select * from before_${name}`,
          `drop table before_${name}`,
        ]);
        const unplant = [
          'drop function if exists stay cascade',
          "delete from event_outbox where event_id = 'ev_x'",
        ];
        const ledger = isLedger ? ledgerBack : [];
        await tamper(databaseUrl, 'begin', ...unplant, ...back, ...ledger, 'commit');
        // The active signing key is cached for a second.
        services.clock.advance(1_500);
      }
    },
    close: async () => {
      await api.close();
      await receiver.close();
      await gateway.close();
    },
  };
}

export function reasonsOf({ findings }: Pick<ControlReport, 'findings'>): readonly ControlReason[] {
  return findings.map(({ reason }) => reason);
}
