import { type ChildProcess, fork } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Authority } from '../../proxy/tls/authority.ts';
import type { AgentAnswer, AgentTask } from './agent.ts';
import { createApi } from './api.ts';
import { configure } from './configure.ts';
import { startCrmServer } from './crm-server.ts';
import { type PaymentsApi, startModelApi, startPaymentsApi } from './upstream-apis.ts';

/** A running Sallyport: embedded, or as separate processes. */
export interface Platform {
  readonly origin: string;
  readonly ownerKey: string;
  readonly agentId: string;
  readonly adminUrl: string;
  /** Environment variables that send the agent's calls through the sidecar. */
  readonly proxySettings: readonly (readonly [string, string])[];
  /** Executes SQL on the ledger's database. */
  sql(text: string, values: readonly unknown[]): Promise<readonly Record<string, unknown>[]>;
}

/** The parts that the steps of the tour use. */
export interface World {
  readonly secret: string;
  readonly paymentsUrl: string;
  readonly crmUrl: string;
  readonly modelUrl: string;
  readonly payments: PaymentsApi;
  readonly crm: { readonly performed: readonly string[] };
  readonly agent: AgentProcess;
  /** Id of the pending approval; fails if there is none within ten seconds. */
  pendingApproval(): Promise<number>;
  decide(approvalId: number, action: string): Promise<void>;
  issuePassport(): Promise<{ readonly token: string; readonly jti: string }>;
  /** Revokes the passport, and waits until the sidecar has the revocation. */
  revokePassport(jti: string): Promise<void>;
  /**
   * The newest decision on a tool since this method was last called. Waits up to ten seconds for
   * the expected decision, because one tool call may record several decisions.
   */
  newestDecision(tool: string, expected: ExpectedDecision): Promise<DecisionSeen>;
  verifyLedger(): Promise<VerifyReport>;
  close(): Promise<void>;
}

interface VerifyReport {
  readonly ok: boolean;
  readonly events: number;
  readonly problem?: { readonly position: number; readonly kind: string } | null;
}

/** Starts the demo's APIs and agent, and configures Sallyport for them through its API. */
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
      await until('the sidecar has the revocation', async () =>
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

function decisionReader({ api }: ReturnType<typeof createApi>): World['newestDecision'] {
  let cursor: string | undefined;
  const newest = async (tool: string) => {
    const query = new URLSearchParams({
      tool,
      limit: '1000',
      ...(cursor === undefined ? {} : { cursor }),
    });
    const { events } = await api('GET', `/v1/evidence/events?${query}`);
    return (events as LedgerRow[]).filter(({ type }) => type === 'decision').at(-1);
  };
  return async (tool, { decision, reason }) => {
    const giveUpAt = performance.now() + 10_000;
    for (;;) {
      const row = await newest(tool);
      const isExpected = row?.decision === decision && row.reason_code === reason;
      if (row !== undefined && (isExpected || performance.now() > giveUpAt)) {
        cursor = row.cursor;
        return { decision: row.decision, reason: row.reason_code, evidenceId: row.id };
      }
      if (performance.now() > giveUpAt) throw new Error(`The ledger has no decision on ${tool}.`);
      await delay(50);
    }
  };
}

interface LedgerRow {
  readonly cursor: string;
  readonly id: string;
  readonly type: string;
  readonly decision: string;
  readonly reason_code: string;
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

export interface ExpectedDecision {
  readonly decision: string;
  readonly reason: string;
}

export interface DecisionSeen {
  readonly decision: string;
  readonly reason: string;
  readonly evidenceId: string;
}

/** The agent's process. */
interface AgentProcess {
  do(task: AgentTask): Promise<AgentAnswer>;
  close(): void;
}

interface Reply {
  readonly id?: number;
  readonly ready?: true;
  readonly answer?: AgentAnswer;
  readonly error?: string;
}

/** Starts the agent with only proxy and CA variables in its environment. */
async function startAgent(env: Readonly<Record<string, string>>): Promise<AgentProcess> {
  const child = fork(fileURLToPath(new URL('./agent.ts', import.meta.url)), {
    env: { PATH: process.env.PATH ?? '', ...env },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  await new Promise<void>((resolve, reject) => {
    child.once('message', () => resolve());
    child.once('exit', (code) => reject(new Error(`The agent exited with code ${code}.`)));
  });
  return { do: taskSender(child), close: () => void child.kill() };
}

function taskSender(child: ChildProcess): AgentProcess['do'] {
  let last = 0;
  return (task) => {
    last += 1;
    const id = last;
    return new Promise((resolve, reject) => {
      const onMessage = (reply: Reply) => {
        if (reply.id !== id) return;
        child.off('message', onMessage);
        if (reply.answer === undefined) reject(new Error(reply.error));
        else resolve(reply.answer);
      };
      child.on('message', onMessage);
      child.send({ id, task });
    });
  };
}
