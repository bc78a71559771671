import { randomBytes } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { programs } from '../../../scripts/bundle/programs.ts';
import { formatApiKey } from '../../../shared/crypto/api-key.ts';
import { answersOk, freePort, type Program, startProgram, until } from '../programs/processes.ts';

/** A compile cache, which halves the start time of programs that are started repeatedly. */
export const compileCache = { NODE_COMPILE_CACHE: join(tmpdir(), 'sallyport-tests-compiled') };

export const ownerKey = formatApiKey('separateProcessesOwnerKey00000');

/** The flags with which `npm run sidecar` starts the sidecar. */
export const sidecarFlags = ['--max-semi-space-size=16', '--heap-growing-percent=100'];

/** Starts one of the programs. */
export type Launch = (
  name: 'control-plane' | 'sidecar',
  env: Readonly<Record<string, string>>,
  options: { readonly logFile?: string },
) => Program;

export const fromSources: Launch = (name, env, options) =>
  name === 'sidecar'
    ? startProgram('proxy/start.ts', env, { flags: sidecarFlags, ...options })
    : startProgram('control-plane/main.ts', env, options);

/** Starts programs of a bundle in this folder, with the flags of the image's commands. */
export function fromBundle(folder: string): Launch {
  return (name, env, options) => {
    const flag = programs.find((program) => program.name === name)?.nodeFlag;
    const flags = flag === undefined ? [] : [flag];
    return startProgram(join(folder, `${name}.cjs`), env, { flags, ...options });
  };
}

export type CallApi = (
  method: string,
  path: string,
  body?: unknown,
  /** API key; default: the owner's. */
  key?: string,
) => Promise<{ readonly status: number; readonly body: Record<string, unknown> }>;

/** A control plane as a process, with one registered agent. */
export interface ControlPlane {
  readonly origin: string;
  readonly agentId: string;
  /** The key under which the control plane's secrets are encrypted. */
  readonly masterKey: Buffer;
  readonly program: Program;
  readonly api: CallApi;
  /** Returns a one-time token with which a sidecar enrols for the agent. */
  enrolmentToken(): Promise<string>;
  /** Starts the control plane again after it has ended. */
  restart(isAwaited: boolean): Promise<Program>;
}

interface ControlPlaneOptions {
  readonly databaseUrl: string;
  readonly redisUrl: string;
  readonly dataDir: string;
  /** Additional development keys, `key=tenant:role:scope`. */
  readonly devKeys?: readonly string[];
  readonly logFile?: string;
  /** Default: from the sources. */
  readonly launch?: Launch;
}

export async function startControlPlane({
  databaseUrl,
  redisUrl,
  dataDir,
  devKeys = [],
  logFile,
  launch = fromSources,
}: ControlPlaneOptions): Promise<ControlPlane> {
  const apiPort = await freePort();
  const origin = `http://127.0.0.1:${apiPort}`;
  const masterKey = randomBytes(32);
  const env = {
    ...compileCache,
    SALLYPORT_API_PORT: String(apiPort),
    SALLYPORT_DATA_DIR: dataDir,
    SALLYPORT_DEV_KEYS: [`${ownerKey}=default:owner:gateway:owner`, ...devKeys].join(','),
    SALLYPORT_MASTER_KEY: masterKey.toString('base64'),
    SALLYPORT_ALLOW_PRIVATE: '127.0.0.0/8,::1/128',
    SALLYPORT_REQUESTS_PER_MINUTE: '10000000',
    DATABASE_URL: databaseUrl,
    REDIS_URL: redisUrl,
  };
  const start = async (isAwaited: boolean) => {
    const program = launch('control-plane', env, logFile === undefined ? {} : { logFile });
    if (isAwaited) await ready(program, `${origin}/readyz`);
    return program;
  };
  const api: CallApi = async (method, path, body, key = ownerKey) => {
    const response = await fetch(`${origin}/api${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };
  const program = await start(true);
  const agent = await api('POST', '/v1/agents/register', { name: 'tester', capabilities: ['*'] });
  const agentId = String(agent.body.agent_id);
  const enrolmentToken = async () => {
    const terms = { agent_id: agentId, user_id: 'user_1' };
    return String((await api('POST', '/v1/sidecars/tokens', terms)).body.token);
  };
  return { origin, agentId, masterKey, program, api, enrolmentToken, restart: start };
}

/** Waits until the program answers 200 at this URL. */
export async function ready(program: Program, url: string): Promise<void> {
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
