import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import { join } from 'node:path';
import { formatApiKey } from '../../../shared/crypto/api-key.ts';
import {
  billingPod,
  type Changes,
  type OidcIssuer,
  startOidcIssuer,
} from '../control-plane/oidc-issuer.ts';
import { freshDatabase } from '../programs/postgres.ts';
import { answersOk, freePort, type Program, startProgram, until } from '../programs/processes.ts';
import { startRedis } from '../programs/redis.ts';
import { Cleanup, temporaryFolder } from '../sidecar/proxy.ts';

const ownerKey = formatApiKey('podStageOwnerKey00000000000000');

/** A cluster's issuer, a control plane that trusts it, and pods, as separate processes. */
export interface PodStage {
  readonly issuer: OidcIssuer;
  readonly databaseUrl: string;
  controlPlane: Program | undefined;
  startControlPlane(): Promise<void>;
  api(method: string, path: string, body?: object): Promise<Record<string, unknown>>;
  /** Registers an agent; returns its id. */
  agent(name: string): Promise<string>;
  /** Writes the rule `refunds` for the service account of the pods. */
  rule(agentId: string): Promise<Record<string, unknown>>;
  pod(uid: string): Promise<Pod>;
  sidecars(): Promise<readonly SidecarRecord[]>;
  close(): Promise<void>;
}

export interface SidecarRecord {
  readonly id: string;
  readonly agent_id: string;
  readonly revoked_for?: string;
  readonly workload?: { readonly pod_uid: string };
}

/** One pod: a folder for its data and its token, and its sidecar's process. */
export interface Pod {
  readonly dataDir: string;
  readonly proxyUrl: string;
  /** Writes the token file, as the kubelet does. */
  renewToken(changes?: Changes): Promise<void>;
  start(): Program;
  isReady(): Promise<boolean>;
}

export async function startPodStage(): Promise<PodStage> {
  const cleanup = new Cleanup();
  const database = await freshDatabase();
  cleanup.add(() => database.drop());
  const redis = await startRedis();
  cleanup.add(() => redis.stop());
  const issuer = await startOidcIssuer();
  cleanup.add(() => issuer.close());
  const folder = temporaryFolder(cleanup);
  const apiPort = await freePort();
  const origin = `http://127.0.0.1:${apiPort}`;
  const controlPlaneEnv = {
    SALLYPORT_API_PORT: String(apiPort),
    SALLYPORT_DATA_DIR: join(folder, 'control-plane'),
    SALLYPORT_DEV_KEYS: `${ownerKey}=default:owner:gateway:owner`,
    SALLYPORT_MASTER_KEY: randomBytes(32).toString('base64'),
    SALLYPORT_OIDC_ISSUERS: JSON.stringify([{ issuer: issuer.issuer, ca_file: issuer.caFile }]),
    SALLYPORT_REQUESTS_PER_MINUTE: '1000000',
    DATABASE_URL: database.url,
    REDIS_URL: redis.url,
  };
  const api: PodStage['api'] = async (method, path, body) => {
    const response = await fetch(`${origin}/api${path}`, {
      method,
      headers: { authorization: `Bearer ${ownerKey}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return (await response.json()) as Record<string, unknown>;
  };
  const stage: PodStage = {
    issuer,
    databaseUrl: database.url,
    controlPlane: undefined,
    async startControlPlane() {
      stage.controlPlane = startProgram('control-plane/main.ts', controlPlaneEnv);
      await until('the control plane is ready', () => answersOk(`${origin}/readyz`), 60_000);
    },
    api,
    agent: async (name) => {
      const body = { name, capabilities: ['**'] };
      return String((await api('POST', '/v1/agents/register', body)).agent_id);
    },
    rule: (agent_id) =>
      api('PUT', '/v1/sidecars/enrolment-rules/refunds', {
        issuer: issuer.issuer,
        namespace: billingPod.namespace,
        service_account: billingPod.serviceAccount,
        agent_id,
        user_id: 'user_1',
      }),
    pod: (uid) => createPod({ uid, folder, origin, redisUrl: redis.url, issuer, cleanup }),
    sidecars: async () => (await api('GET', '/v1/sidecars')).sidecars as readonly SidecarRecord[],
    close: async () => {
      await stage.controlPlane?.kill();
      await cleanup.run();
    },
  };
  return stage;
}

interface PodOptions {
  readonly uid: string;
  readonly folder: string;
  readonly origin: string;
  readonly redisUrl: string;
  readonly issuer: OidcIssuer;
  readonly cleanup: Cleanup;
}

async function createPod({
  uid,
  folder,
  origin,
  redisUrl,
  issuer,
  cleanup,
}: PodOptions): Promise<Pod> {
  const dataDir = join(folder, uid);
  const tokenFile = join(folder, `${uid}.token`);
  const [proxyPort, adminPort] = [await freePort(), await freePort()];
  const env = {
    SALLYPORT_PROXY_PORT: String(proxyPort),
    SALLYPORT_PROXY_ADMIN_PORT: String(adminPort),
    SALLYPORT_DATA_DIR: dataDir,
    SALLYPORT_CONTROL_PLANE_URL: origin,
    SALLYPORT_WORKLOAD_TOKEN_FILE: tokenFile,
    REDIS_URL: redisUrl,
  };
  return {
    dataDir,
    proxyUrl: `http://127.0.0.1:${proxyPort}`,
    renewToken: async (changes = {}) => {
      const pod = { name: `pod-${uid}`, uid };
      const { namespace, serviceAccount } = billingPod;
      const serviceaccount = { name: serviceAccount, uid: 'a1' };
      const token = await issuer.token({
        'kubernetes.io': { namespace, serviceaccount, pod },
        ...changes,
      });
      // The kubelet replaces the file as a whole.
      fs.writeFileSync(`${tokenFile}.new`, token);
      fs.renameSync(`${tokenFile}.new`, tokenFile);
    },
    start: () => {
      const program = startProgram('proxy/start.ts', env);
      cleanup.add(() => program.kill());
      return program;
    },
    isReady: () => answersOk(`http://127.0.0.1:${adminPort}/readyz`),
  };
}
