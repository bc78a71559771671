import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Authority } from '../../proxy/tls/authority.ts';
import { type AgentProcess, startAgent } from './agent-process.ts';
import { createApi } from './api.ts';
import { startCrmServer } from './crm-server.ts';
import { startModelApi } from './model-api.ts';
import { type PaymentsApi, startPaymentsApi } from './payments-api.ts';
import { demoPolicy } from './policy.ts';

/** A running Sallyport: embedded, or as separate processes. */
export interface Platform {
  readonly origin: string;
  readonly ownerKey: string;
  readonly agentId: string;
  readonly adminUrl: string;
  /** What an agent's environment needs to go through the sidecar. */
  readonly proxySettings: readonly (readonly [string, string])[];
  /** Runs SQL on the ledger's database, as its owner could. */
  sql(text: string, values: readonly unknown[]): Promise<readonly Record<string, unknown>[]>;
}

/** Everything that the tour's steps act on. */
export interface World {
  readonly secret: string;
  readonly paymentsUrl: string;
  readonly crmUrl: string;
  readonly modelUrl: string;
  readonly payments: PaymentsApi;
  readonly crm: { readonly performed: readonly string[] };
  readonly agent: AgentProcess;
  /** Id of the approval that waits; fails when none comes up. */
  pendingApproval(): Promise<number>;
  decide(approvalId: number, action: string): Promise<void>;
  issuePassport(): Promise<{ readonly token: string; readonly jti: string }>;
  /** Revokes, and waits until the sidecar has heard of it. */
  revokePassport(jti: string): Promise<void>;
  /** The newest decision on a tool that is younger than the last one this gave out. */
  newestDecision(tool: string): Promise<DecisionSeen>;
  verifyLedger(): Promise<VerifyReport>;
  close(): Promise<void>;
}

interface VerifyReport {
  readonly ok: boolean;
  readonly events: number;
  readonly problem?: { readonly position: number; readonly kind: string } | null;
}

/** Starts the outside world of the demo and tells Sallyport about it, through its API. */
export async function buildWorld(platform: Platform, upstreamCa: Authority): Promise<World> {
  const { api, until } = createApi(platform);
  const secret = `sk_live_${randomBytes(18).toString('base64url')}`;
  const certificate = upstreamCa.leafFor('localhost');
  const payments = await startPaymentsApi(certificate, secret);
  const model = await startModelApi(certificate);
  const crm = await startCrmServer();
  await configure({
    api,
    secret,
    paymentsPort: payments.port,
    crmPort: crm.port,
    modelPort: model.port,
  });
  await until('the sidecar holds the policy', () => holdsPolicy(platform));
  const agent = await startAgent(Object.fromEntries(platform.proxySettings));

  return {
    secret,
    payments,
    crm,
    agent,
    paymentsUrl: `https://localhost:${payments.port}`,
    modelUrl: `https://localhost:${model.port}`,
    crmUrl: `http://localhost:${crm.port}`,
    pendingApproval: () =>
      until('an approval is pending', async () => {
        const { approvals } = await api('GET', '/v1/approvals?status=pending');
        return (approvals as { id: number }[])[0]?.id;
      }),
    async decide(approvalId, action) {
      await api('POST', `/v1/approvals/${approvalId}/decide`, { action, comment: 'looks right' });
    },
    async issuePassport() {
      const { token, claims } = await api('POST', '/v1/agents/issue-passport', {
        agent_id: Number(platform.agentId),
        requested_tools: ['payments.refund'],
        risk_tier: 'low',
      });
      return { token: String(token), jti: (claims as { jti: string }).jti };
    },
    async revokePassport(jti) {
      const before = await sectionVersion(platform, 'revocations');
      await api('POST', '/v1/passports/revoke', { jti, reason: 'demo' });
      await until('the sidecar heard of it', async () =>
        (await sectionVersion(platform, 'revocations')) > before ? true : undefined,
      );
    },
    newestDecision: decisionReader({ api, until }),
    verifyLedger: async () => (await api('GET', '/v1/evidence/verify')) as unknown as VerifyReport,
    async close() {
      agent.close();
      await Promise.all([payments.close(), model.close(), crm.close()]);
    },
  };
}

/** Gives the newest decision on a tool that is younger than the last one it gave. */
function decisionReader({ api, until }: ReturnType<typeof createApi>): World['newestDecision'] {
  let cursor: string | undefined;
  return (tool) =>
    until(`a decision on ${tool} is in the ledger`, async () => {
      const query = new URLSearchParams({
        tool,
        limit: '1000',
        ...(cursor === undefined ? {} : { cursor }),
      });
      const newest = async () => {
        const { events } = await api('GET', `/v1/evidence/events?${query}`);
        return (events as LedgerRow[]).filter(({ type }) => type === 'decision').at(-1);
      };
      const first = await newest();
      if (first === undefined) return undefined;
      await delay(150); // what the same call still brings
      const last = (await newest()) ?? first;
      cursor = last.cursor;
      return { decision: last.decision, reason: last.reason_code, evidenceId: last.id };
    });
}

interface LedgerRow {
  readonly cursor: string;
  readonly id: string;
  readonly type: string;
  readonly decision: string;
  readonly reason_code: string;
}

async function configure({
  api,
  secret,
  paymentsPort,
  crmPort,
  modelPort,
}: {
  readonly api: ReturnType<typeof createApi>['api'];
  readonly secret: string;
  readonly paymentsPort: number;
  readonly crmPort: number;
  readonly modelPort: number;
}): Promise<void> {
  await api('PUT', '/v1/runtime/bindings/refunds', {
    protocol: 'http',
    host: `localhost:${paymentsPort}`,
    method: 'POST',
    path: '/v1/refunds',
    body: 'json',
    tool: 'payments.refund',
    resource: 'payment:{payment_id}',
  });
  await api('PUT', '/v1/runtime/bindings/crm', {
    protocol: 'mcp',
    host: `localhost:${crmPort}`,
    path: '/mcp',
  });
  await api('PUT', '/v1/runtime/bindings/model', {
    protocol: 'passthrough',
    host: `localhost:${modelPort}`,
  });
  await api('POST', '/v1/credentials', {
    name: 'payments',
    secret,
    inject: { in: 'bearer' },
    bind: { tools: ['payments.*'], hosts: [`localhost:${paymentsPort}`] },
  });
  await api('POST', '/v1/policies', { name: 'Demo', rules_json: demoPolicy, publish: true });
}

async function holdsPolicy(platform: Platform): Promise<true | undefined> {
  return (await sectionVersion(platform, 'policies')) > 0 &&
    (await sectionVersion(platform, 'bindings')) > 2
    ? true
    : undefined;
}

/** The version of a section that the sidecar holds, from its metrics. */
async function sectionVersion({ adminUrl }: Platform, section: string): Promise<number> {
  const text = await (await fetch(`${adminUrl}/metrics`)).text();
  const line = new RegExp(
    `^sallyport_replica_section_version\\{section="${section}"\\} (\\d+)`,
    'm',
  );
  return Number(line.exec(text)?.[1] ?? 0);
}

export interface DecisionSeen {
  readonly decision: string;
  readonly reason: string;
  readonly evidenceId: string;
}
