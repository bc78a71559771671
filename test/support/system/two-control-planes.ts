import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Pool } from 'pg';
import { formatApiKey } from '../../../shared/crypto/api-key.ts';
import { freshDatabase } from '../programs/postgres.ts';
import { answersOk, freePort, type Program, startProgram, until } from '../programs/processes.ts';
import { startRedis, type TestRedis } from '../programs/redis.ts';

const keys = {
  owner: formatApiKey('replicasOwnerKey00000000000000'),
  other: formatApiKey('replicasOtherKey00000000000000'),
} as const;

interface Answer {
  readonly status: number;
  readonly text: string;
  readonly body: Record<string, unknown>;
}

/** Two control planes as processes on one Postgres and one Redis. Tests may kill either of them. */
export interface TwoControlPlanes {
  readonly programs: Program[];
  readonly origins: readonly string[];
  readonly ownerKey: string;
  readonly redis: TestRedis;
  /** A direct connection to the shared database. */
  readonly pool: Pool;
  readonly databaseUrl: string;
  /** The master key of both control planes. */
  readonly masterKey: string;
  /** Starts or restarts one control plane. It keeps the given settings for later starts. */
  start(at: number, env?: Readonly<Record<string, string>>): Promise<void>;
  call(
    at: number,
    method: string,
    path: string,
    body?: object,
    /** The name of a development key, or an API key itself. Default: the owner's. */
    key?: string,
  ): Promise<Answer>;
  close(): Promise<void>;
}

export async function startTwoControlPlanes(): Promise<TwoControlPlanes> {
  const database = await freshDatabase();
  const redis = await startRedis();
  const folder = fs.mkdtempSync(join(tmpdir(), 'two-control-planes-'));
  const masterKey = randomBytes(32).toString('base64');
  const pool = new Pool({ connectionString: database.url, max: 4 });
  const programs: Program[] = [];
  const ports = [await freePort(), await freePort()];
  const originOf = (at: number) => `http://127.0.0.1:${ports[at]}`;
  const changes: Record<string, string>[] = [{}, {}];
  const start = async (at: number, env: Readonly<Record<string, string>> = {}) => {
    Object.assign(changes[at] ?? {}, env);
    programs[at] = startProgram('control-plane/main.ts', {
      REDIS_URL: redis.url,
      DATABASE_URL: database.url,
      SALLYPORT_API_PORT: String(ports[at]),
      SALLYPORT_DATA_DIR: join(folder, String(at)),
      SALLYPORT_DEV_KEYS: Object.values(keys)
        .map((key) => `${key}=default:owner:gateway:owner`)
        .join(','),
      SALLYPORT_MASTER_KEY: masterKey,
      SALLYPORT_REQUESTS_PER_MINUTE: '10000000',
      ...changes[at],
    });
    await until(`${originOf(at)} is ready`, () => answersOk(`${originOf(at)}/readyz`), 60_000);
  };
  // Starts them one after the other, because the first one migrates the database.
  for (const at of [0, 1]) await start(at);
  return {
    programs,
    origins: [originOf(0), originOf(1)],
    ownerKey: keys.owner,
    redis,
    pool,
    databaseUrl: database.url,
    masterKey,
    start,
    async call(at, method, path, body, key = 'owner') {
      const response = await fetch(`${originOf(at)}/api${path}`, {
        method,
        headers: {
          authorization: `Bearer ${keys[key as keyof typeof keys] ?? key}`,
          'content-type': 'application/json',
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      return { status: response.status, text, body: JSON.parse(text) as Answer['body'] };
    },
    async close() {
      for (const program of programs) await program.kill();
      await pool.end();
      await redis.stop();
      await database.drop();
      fs.rmSync(folder, { recursive: true, force: true });
    },
  };
}
