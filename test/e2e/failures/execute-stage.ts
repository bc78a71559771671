import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Pool } from 'pg';
import { formatApiKey } from '../../../shared/crypto/api-key.ts';
import { certificateFor } from '../../proxy/upstream/upstream-tls-stage.ts';
import { freshDatabase } from '../../support/programs/postgres.ts';
import {
  answersOk,
  freePort,
  type Program,
  startProgram,
  until,
} from '../../support/programs/processes.ts';
import { startRedis } from '../../support/programs/redis.ts';
import { startUpstream } from '../../support/sidecar/upstream.ts';

export const secret = 'sk_live_9d41c07be2aa5f';
const ownerKey = formatApiKey('executeOwnerKey000000000000000');
const relayKey = formatApiKey('executeRelayKey000000000000000');

export interface Answer {
  readonly status: number;
  readonly text: string;
  readonly body: Record<string, unknown>;
}

/** Starts two control planes on one Postgres and one Redis, and a TLS upstream for the tool `bank.pay`. */
export async function startExecuteStage() {
  const database = await freshDatabase();
  const redis = await startRedis();
  const folder = fs.mkdtempSync(join(tmpdir(), 'execute-'));
  const identity = certificateFor('localhost');
  fs.writeFileSync(join(folder, 'ca.pem'), identity.ca);
  const upstream = await startUpstream({ tls: identity });
  const masterKey = randomBytes(32).toString('base64');
  const pool = new Pool({ connectionString: database.url, max: 2 });
  const programs: Program[] = [];
  const origins: string[] = [];

  const start = async (at: number) => {
    const port = await freePort();
    const origin = `http://127.0.0.1:${port}`;
    const program = startProgram('control-plane/main.ts', {
      REDIS_URL: redis.url,
      DATABASE_URL: database.url,
      NODE_EXTRA_CA_CERTS: join(folder, 'ca.pem'),
      SALLYPORT_ALLOW_PRIVATE: '127.0.0.0/8,::1/128',
      SALLYPORT_API_PORT: String(port),
      SALLYPORT_DATA_DIR: join(folder, `data-${port}`),
      SALLYPORT_DEV_KEYS: `${ownerKey}=default:owner:gateway:owner,${relayKey}=default:gateway:gateway:relay`,
      SALLYPORT_MASTER_KEY: masterKey,
      SALLYPORT_REQUESTS_PER_MINUTE: '10000000',
      SALLYPORT_LOG_LEVEL: 'debug',
    });
    programs[at] = program;
    origins[at] = origin;
    await until(`${origin} is ready`, () => answersOk(`${origin}/readyz`), 40_000);
  };
  // They start one after the other, because the first one migrates the database.
  for (const at of [0, 1]) await start(at);

  const call = async (at: number, path: string, init: RequestInit, key: string) => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const response = await fetch(`${origins[at]}/api${path}`, { ...init, headers });
    const text = await response.text();
    return { status: response.status, text, body: JSON.parse(text) as Answer['body'] };
  };
  const owner = (method: string, path: string, body: object) =>
    call(0, path, { method, body: JSON.stringify(body) }, ownerKey);
  const registered = await owner('POST', '/v1/agents/register', {
    name: 'relayed',
    capabilities: ['bank.*'],
  });
  const agentId = String(registered.body.agent_id);
  await owner('PUT', '/v1/runtime/bindings/pay', {
    protocol: 'http',
    host: 'bank.example',
    method: 'POST',
    path: '/pay',
    tool: 'bank.pay',
    resource: 'account:{account}',
    upstream: { url: `https://localhost:${upstream.port}/{account}/pay`, method: 'POST' },
  });
  await owner('POST', '/v1/credentials', {
    name: 'bank',
    secret,
    inject: { in: 'bearer' },
    bind: { tools: ['bank.pay'], hosts: [`localhost:${upstream.port}`] },
  });
  await owner('POST', '/v1/policies', { name: 'pay', publish: true, rules_json: payPolicy });

  return {
    upstream,
    programs,
    pool,
    start,
    /** Executes `bank.pay` with an amount at one of the control planes. */
    pay: (at: number, amount: number, more: object = {}) => {
      const args = { account: 'main', amount };
      const action = { tool: 'bank.pay', resource: 'account:main', args, user_id: 'user_1' };
      const body = JSON.stringify({ ...action, agent_id: agentId, ...more });
      return call(at, '/v1/actions/execute', { method: 'POST', body }, relayKey);
    },
    paid: (amount: number) =>
      upstream.seen.filter(({ body }) => JSON.parse(body).amount === amount).length,
    /**
     * Sets the start of the first request with this key back by ten minutes, longer than any
     * request can take.
     */
    age: (key: string) =>
      pool.query(
        "update idempotency set created_at = created_at - interval '10 minutes' where key = $1",
        [key],
      ),
    /** Returns the ledger's execution events that belong to a decision. */
    resultsOf: async (decisionId: unknown) => {
      const { rows } = await pool.query<{ canonical: string }>(
        "select canonical from evidence_row where type = 'execution.result'",
      );
      return rows
        .map(({ canonical }) => JSON.parse(canonical))
        .filter(({ data }) => data.decision_event_id === decisionId);
    },
    async close() {
      for (const program of programs) await program.kill();
      await upstream.close();
      await pool.end();
      await redis.stop();
      await database.drop();
      fs.rmSync(folder, { recursive: true, force: true });
    },
  };
}

const payPolicy = {
  id: 'pay',
  version: 1,
  rules: [
    {
      name: 'small',
      decision: 'allow',
      reason: 'pay.small',
      when: { all: [{ path: 'args.amount', operator: '<=', value: 1000 }] },
    },
  ],
};
