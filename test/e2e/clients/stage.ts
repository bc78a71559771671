import fs from 'node:fs';
import { join, resolve } from 'node:path';
import { freshDatabase } from '../../support/programs/postgres.ts';
import { until } from '../../support/programs/processes.ts';
import { startRedis } from '../../support/programs/redis.ts';
import {
  Cleanup,
  httpsUpstream,
  httpUpstream,
  temporaryFolder,
  testAuthority,
} from '../../support/sidecar/proxy.ts';
import { type Separate, startSeparate } from '../../support/system/separate.ts';
import { type LineClient, startLineClient } from './line-client.ts';
import { type Performed, paymentsUpstream } from './upstream.ts';

export const schemes = ['http', 'https'] as const;
export type Scheme = (typeof schemes)[number];

export const secret = 'sk_live_that_no_client_ever_sees';
// Contains all characters that a URL must escape, because each client reads the token from the proxy's URL.
const proxyToken = "pr/oxy+tok=en:with@odd'char%41acters";

/** Separate processes, a payments API over HTTP and over HTTPS, and a policy on amounts. */
export interface ClientStage {
  readonly separate: Separate;
  readonly performed: readonly Performed[];
  port(scheme: Scheme): number;
  /** Starts a client through `sallyport run`. */
  client(command: readonly string[]): LineClient;
  /** Waits for the pending approval of this amount, and grants it through the API. */
  approve(amount: number): Promise<void>;
  /** Restarts the sidecar with another hold time. */
  hold(holdMs: number): Promise<void>;
  close(): Promise<void>;
}

export async function startClientStage(): Promise<ClientStage> {
  const cleanup = new Cleanup();
  const performed: Performed[] = [];
  const authority = testAuthority(cleanup);
  const upstream = paymentsUpstream(performed);
  const ports = {
    http: await httpUpstream(cleanup, upstream),
    https: await httpsUpstream(cleanup, authority, upstream, 'localhost'),
  };
  const folder = temporaryFolder(cleanup);
  const caPath = join(folder, 'upstream.pem');
  fs.writeFileSync(caPath, authority.certPem);
  const database = await freshDatabase();
  cleanup.add(() => database.drop());
  const redis = await startRedis();
  cleanup.add(() => redis.stop());
  const separate = await startSeparate({
    databaseUrl: database.url,
    redisUrl: redis.url,
    sidecarEnv: { NODE_EXTRA_CA_CERTS: caPath, SALLYPORT_PROXY_TOKEN: proxyToken },
  });
  cleanup.add(() => separate.close());
  await configure(separate, ports);
  const settings = {
    HOME: folder,
    SALLYPORT_PROXY_TOKEN: proxyToken,
    SALLYPORT_PROXY_PORT: new URL(separate.proxyUrl).port,
    SALLYPORT_PROXY_ADMIN_PORT: new URL(separate.adminUrl).port,
  };
  const run = [process.execPath, resolve(import.meta.dirname, '../../../cli/main.ts'), 'run', '--'];
  return {
    separate,
    performed,
    port: (scheme) => ports[scheme],
    client: (command) => startLineClient([...run, ...command], settings),
    approve: (amount) => approveRefund(separate, amount),
    async hold(holdMs) {
      await separate.sidecar.stop();
      await separate.restartSidecar({ ready: true, env: { SALLYPORT_HOLD_MS: String(holdMs) } });
    },
    close: () => cleanup.run(),
  };
}

/** Waits for the pending approval of this amount, and grants it. */
export async function approveRefund(separate: Separate, amount: number): Promise<void> {
  const id = await waiting(separate, amount);
  const decision = { action: 'approve', comment: 'looks right' };
  const { status } = await separate.api('POST', `/v1/approvals/${id}/decide`, decision);
  if (status !== 200) throw new Error(`approval ${id} could not be granted: ${status}`);
}

async function waiting({ api }: Separate, amount: number): Promise<number> {
  let id = 0;
  await until(`an approval of ${amount} waits`, async () => {
    const { body } = await api('GET', '/v1/approvals?status=pending');
    const open = (body.approvals ?? []) as { readonly id: number; readonly args?: unknown }[];
    id = open.find((one) => JSON.stringify(one).includes(`"amount":${amount}`))?.id ?? 0;
    return id > 0;
  });
  return id;
}

async function configure({ api, adminUrl }: Separate, ports: Readonly<Record<Scheme, number>>) {
  const put = async (path: string, body: object, method = 'PUT') => {
    const answer = await api(method, path, body);
    if (answer.status >= 300) throw new Error(`${path}: ${JSON.stringify(answer.body)}`);
  };
  for (const scheme of schemes) {
    const host = `localhost:${ports[scheme]}`;
    await put(`/v1/runtime/bindings/refunds-${scheme}`, {
      protocol: 'http',
      host,
      method: 'POST',
      path: '/v1/refunds',
      body: 'json',
      tool: 'payments.refund',
      resource: 'payment:1',
    });
    await put(`/v1/runtime/bindings/new-${scheme}`, { protocol: 'mcp', host, path: '/mcp' });
    await put(`/v1/runtime/bindings/old-${scheme}`, {
      protocol: 'mcp',
      host,
      path: '/sessions/mcp',
    });
  }
  const hosts = schemes.map((scheme) => `localhost:${ports[scheme]}`);
  const credential = {
    name: 'payments',
    secret,
    inject: { in: 'bearer' },
    bind: { tools: ['**'], hosts },
  };
  await put('/v1/credentials', credential, 'POST');
  await put('/v1/policies', { name: 'Refunds', publish: true, rules_json: refundPolicy }, 'POST');
  await until('the sidecar holds bindings and policy', async () => {
    const metrics = await (await fetch(`${adminUrl}/metrics`)).text();
    const version = (section: string) =>
      Number(new RegExp(`section_version\\{section="${section}"\\} (\\d+)`).exec(metrics)?.[1]);
    return version('bindings') > 2 * schemes.length && version('policies') > 1;
  });
}

const amount = (operator: string, value: number) => ({ path: 'args.amount', operator, value });

/** Allows amounts up to 100, requires an approval up to 1000, and denies larger amounts. */
export const refundPolicy = {
  id: 'refunds',
  version: 1,
  rules: [
    {
      name: 'small',
      decision: 'allow',
      reason: 'refund.small',
      when: { all: [amount('<=', 100)] },
    },
    {
      name: 'medium',
      decision: 'require_approval',
      reason: 'refund.needs_approval',
      when: { all: [amount('>', 100), amount('<=', 1000)] },
    },
    {
      name: 'large',
      decision: 'deny',
      reason: 'refund.out_of_policy',
      when: { all: [amount('>', 1000)] },
    },
  ],
};
