import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { formatApiKey } from '../../../shared/crypto/api-key.ts';
import { answersOk, freePort, type Program, startProgram, until } from '../programs/processes.ts';

/** A compile cache, which halves the start time of programs that are started repeatedly. */
const compileCache = { NODE_COMPILE_CACHE: join(tmpdir(), 'sallyport-tests-compiled') };

const ownerKey = formatApiKey('separateProcessesOwnerKey00000');

/** The flags with which `npm run sidecar` starts the sidecar. */
const sidecarFlags = ['--max-semi-space-size=16', '--heap-growing-percent=100'];

/** A control plane and a sidecar as two processes on real Postgres and Redis. */
export interface Separate {
  readonly origin: string;
  readonly ownerKey: string;
  readonly agentId: string;
  readonly proxyUrl: string;
  readonly adminUrl: string;
  readonly caPath: string;
  readonly dataDir: string;
  /** The key under which the control plane's secrets are encrypted. */
  readonly masterKey: Buffer;
  controlPlane: Program;
  sidecar: Program;
  api(
    method: string,
    path: string,
    body?: unknown,
    /** API key; default: the owner's. */
    key?: string,
  ): Promise<{ readonly status: number; readonly body: Record<string, unknown> }>;
  /** Starts the control plane again after it has ended. */
  restartControlPlane(options?: { readonly ready: boolean }): Promise<void>;
  /** Starts the sidecar again. Resolves when it is ready, unless the options specify otherwise. */
  restartSidecar(options?: RestartOptions): Promise<void>;
  close(): Promise<void>;
}

interface RestartOptions {
  readonly ready: boolean;
  /** Settings to change. They stay changed for later starts. */
  readonly env?: Readonly<Record<string, string>>;
}

export interface SeparateOptions {
  readonly databaseUrl: string;
  readonly redisUrl: string;
  /** Settings and variables for the sidecar alone. */
  readonly sidecarEnv?: Readonly<Record<string, string>>;
  /** Additional development keys of the control plane, `key=tenant:role:scope`. */
  readonly devKeys?: readonly string[];
  /** Writes the output of both programs to files in `dataDir`, for runs with much output. */
  readonly isLogFiled?: boolean;
  /** The sidecar's data directory. Default: one in `dataDir`. */
  readonly sidecarDir?: string;
}

export async function startSeparate({
  databaseUrl,
  redisUrl,
  sidecarEnv = {},
  devKeys = [],
  isLogFiled = false,
  sidecarDir: givenDir,
}: SeparateOptions): Promise<Separate> {
  const dataDir = fs.mkdtempSync(join(tmpdir(), 'separate-'));
  const [apiPort, proxyPort, adminPort] = [await freePort(), await freePort(), await freePort()];
  const origin = `http://127.0.0.1:${apiPort}`;
  const adminUrl = `http://127.0.0.1:${adminPort}`;
  const masterKey = randomBytes(32);
  const controlPlaneEnv = {
    ...compileCache,
    SALLYPORT_API_PORT: String(apiPort),
    SALLYPORT_DATA_DIR: join(dataDir, 'control-plane'),
    SALLYPORT_DEV_KEYS: [`${ownerKey}=default:owner:gateway:owner`, ...devKeys].join(','),
    SALLYPORT_MASTER_KEY: masterKey.toString('base64'),
    SALLYPORT_ALLOW_PRIVATE: '127.0.0.0/8,::1/128',
    SALLYPORT_REQUESTS_PER_MINUTE: '10000000',
    DATABASE_URL: databaseUrl,
    REDIS_URL: redisUrl,
  };
  const logTo = (name: string) => (isLogFiled ? { logFile: join(dataDir, `${name}.log`) } : {});
  const startControlPlane = async (isAwaited = true) => {
    const program = startProgram('control-plane/main.ts', controlPlaneEnv, logTo('control-plane'));
    if (isAwaited) await ready(program, `${origin}/readyz`);
    return program;
  };
  const api: Separate['api'] = async (method, path, body, key = ownerKey) => {
    const response = await fetch(`${origin}/api${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };
  const controlPlane = await startControlPlane();
  const agent = await api('POST', '/v1/agents/register', { name: 'tester', capabilities: ['*'] });
  const agentId = String(agent.body.agent_id);
  const token = await api('POST', '/v1/sidecars/tokens', { agent_id: agentId, user_id: 'user_1' });
  const sidecarDir = givenDir ?? join(dataDir, 'sidecar');
  const env = {
    ...compileCache,
    SALLYPORT_PROXY_PORT: String(proxyPort),
    SALLYPORT_PROXY_ADMIN_PORT: String(adminPort),
    SALLYPORT_DATA_DIR: sidecarDir,
    SALLYPORT_CONTROL_PLANE_URL: origin,
    SALLYPORT_ENROLMENT_TOKEN: String(token.body.token),
    SALLYPORT_ALLOW_PRIVATE: '127.0.0.0/8,::1/128',
    SALLYPORT_DENIALS_PER_SECOND: '1000000',
    SALLYPORT_DENIALS_BURST: '1000000',
    REDIS_URL: redisUrl,
    ...sidecarEnv,
  };
  const startSidecar = async (isAwaited = true) => {
    const program = startProgram('proxy/start.ts', env, {
      flags: sidecarFlags,
      ...logTo('sidecar'),
    });
    if (isAwaited) await ready(program, `${adminUrl}/readyz`);
    return program;
  };
  const separate: Separate = {
    origin,
    ownerKey,
    agentId,
    proxyUrl: `http://127.0.0.1:${proxyPort}`,
    adminUrl,
    caPath: join(sidecarDir, 'ca.crt'),
    dataDir,
    masterKey,
    controlPlane,
    sidecar: await startSidecar(),
    api,
    async restartControlPlane({ ready } = { ready: true }) {
      separate.controlPlane = await startControlPlane(ready);
    },
    async restartSidecar({ ready, env: changes }: RestartOptions = { ready: true }) {
      Object.assign(env, changes);
      separate.sidecar = await startSidecar(ready);
    },
    async close() {
      await separate.sidecar.kill();
      await separate.controlPlane.kill();
      fs.rmSync(dataDir, { recursive: true, force: true });
    },
  };
  return separate;
}

async function ready(program: Program, url: string): Promise<void> {
  let ended = false;
  void program.exited().then(() => {
    ended = true;
  });
  const isReady = async () => {
    if (ended) throw new Error(`the program ended:\n${program.output()}`);
    return answersOk(url);
  };
  // Kills a program that never becomes ready, because the test has no handle to stop it.
  await until(`${url} answers 200`, isReady, 60_000).catch(async (cause) => {
    await program.kill();
    throw new Error(`not ready:\n${program.output().slice(-4_000)}`, { cause });
  });
}
