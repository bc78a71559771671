import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { freePort, type Program } from '../programs/processes.ts';
import {
  type CallApi,
  compileCache,
  fromSources,
  type Launch,
  ownerKey,
  ready,
  startControlPlane,
} from './control-plane.ts';

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
  readonly api: CallApi;
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
  /** Starts the sidecar, now and in later restarts. */
  readonly launch?: Launch;
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
  /** Default: from the sources. */
  readonly launch?: Launch;
}

export async function startSeparate({
  databaseUrl,
  redisUrl,
  sidecarEnv = {},
  devKeys = [],
  isLogFiled = false,
  sidecarDir: givenDir,
  launch = fromSources,
}: SeparateOptions): Promise<Separate> {
  const dataDir = fs.mkdtempSync(join(tmpdir(), 'separate-'));
  const [proxyPort, adminPort] = [await freePort(), await freePort()];
  const adminUrl = `http://127.0.0.1:${adminPort}`;
  const logTo = (name: string) => (isLogFiled ? { logFile: join(dataDir, `${name}.log`) } : {});
  const platform = await startControlPlane({
    databaseUrl,
    redisUrl,
    devKeys,
    launch,
    dataDir: join(dataDir, 'control-plane'),
    ...logTo('control-plane'),
  });
  const { origin, api, agentId, masterKey } = platform;
  const sidecarDir = givenDir ?? join(dataDir, 'sidecar');
  const env = {
    ...compileCache,
    SALLYPORT_PROXY_PORT: String(proxyPort),
    SALLYPORT_PROXY_ADMIN_PORT: String(adminPort),
    SALLYPORT_DATA_DIR: sidecarDir,
    SALLYPORT_CONTROL_PLANE_URL: origin,
    SALLYPORT_ENROLMENT_TOKEN: await platform.enrolmentToken(),
    SALLYPORT_ALLOW_PRIVATE: '127.0.0.0/8,::1/128',
    SALLYPORT_DENIALS_PER_SECOND: '1000000',
    SALLYPORT_DENIALS_BURST: '1000000',
    REDIS_URL: redisUrl,
    ...sidecarEnv,
  };
  const sidecarLaunch = { launch };
  const startSidecar = async (isAwaited = true) => {
    const program = sidecarLaunch.launch('sidecar', env, logTo('sidecar'));
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
    controlPlane: platform.program,
    sidecar: await startSidecar(),
    api,
    async restartControlPlane({ ready } = { ready: true }) {
      separate.controlPlane = await platform.restart(ready);
    },
    async restartSidecar({ ready, env: changes, launch }: RestartOptions = { ready: true }) {
      Object.assign(env, changes);
      Object.assign(sidecarLaunch, launch === undefined ? {} : { launch });
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
