import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Finished, openNamespaces, outsideAddress, runIn } from '../network/namespaces.ts';
import { startPostgres } from '../programs/postgres.ts';
import { startRedis } from '../programs/redis.ts';
import { type ControlPlane, startControlPlane } from '../system/control-plane.ts';
import { type Arrived, startOutside } from './outside.ts';
import {
  asUser,
  node,
  type PodSidecar,
  type StartSidecar,
  sidecarFromSources,
  startPodSidecar,
  withCode,
} from './pod-sidecar.ts';

const agentUid = 10_001;
const [apiPort, redisPort] = [8080, 6379];

/** Names that only the sidecar can resolve, and their addresses at the host outside. */
export const hosts = {
  'api.example': '93.184.215.14',
  'other.example': '93.184.215.15',
  'mail.example': '93.184.215.16',
} as const;

/** How the programs of a pod are started. */
export interface PodPrograms {
  /** Runs `sallyport network …` in a network namespace: user 0 may change rules, others nothing. */
  network(namespace: string, command: string, uid: number): Promise<Finished>;
  readonly startSidecar: StartSidecar;
}

/** A sidecar in the network namespace of a pod, with redirect rules, and real parts outside. */
export interface Pod {
  readonly controlPlane: ControlPlane;
  readonly sidecar: PodSidecar;
  readonly arrived: Arrived[];
  /** A folder that every user can read; removed at the end. */
  readonly folder: string;
  /** Runs a program as the agent: another user than the sidecar's, without capabilities. */
  agent(command: readonly string[], env?: Readonly<Record<string, string>>): Promise<Finished>;
  /** Runs `sallyport network validate` as the agent. */
  validate(): Promise<Finished>;
  /** Runs `sallyport network check`. */
  check(): Promise<Finished>;
  close(): Promise<void>;
}

/** Starts a pod, by default with programs from the sources. */
export async function startPod(programs = fromSources): Promise<Pod> {
  const stops: (() => unknown)[] = [];
  const close = async () => {
    for (const stop of stops.splice(0).reverse()) await stop();
  };
  try {
    return { ...(await openPod(programs, (stop) => stops.push(stop))), close };
  } catch (thrown) {
    await close();
    throw thrown;
  }
}

/** Programs from the sources, which are mounted in the pod's folder. */
function fromSources(folder: string): PodPrograms {
  const code = join(folder, 'code');
  fs.mkdirSync(code);
  return {
    network(namespace, command, uid) {
      const user = uid === 0 ? [] : asUser(uid);
      return runIn(namespace, withCode(code, [...user, node, 'cli/main.ts', 'network', command]));
    },
    startSidecar: sidecarFromSources(code),
  };
}

async function openPod(
  programs: (folder: string) => PodPrograms,
  atEnd: (stop: () => unknown) => void,
): Promise<Omit<Pod, 'close'>> {
  const folder = fs.mkdtempSync(join(tmpdir(), 'pod-'));
  fs.chmodSync(folder, 0o755);
  atEnd(() => fs.rmSync(folder, { recursive: true, force: true }));
  const namespaces = await openNamespaces();
  atEnd(() => namespaces.close());
  const postgres = await startPostgres();
  atEnd(() => postgres.stop());
  const redis = await startRedis();
  atEnd(() => redis.stop());
  const dataDir = join(folder, 'control-plane');
  const stores = { databaseUrl: postgres.url, redisUrl: redis.url };
  const controlPlane = await startControlPlane({ ...stores, dataDir });
  atEnd(() => controlPlane.program.kill());
  const ports = { [apiPort]: controlPlane.origin, [redisPort]: redis.url };
  const outside = await startOutside(namespaces, folder, ports);
  atEnd(() => outside.close());
  const { network, startSidecar: start } = programs(folder);
  const applied = await network(namespaces.pod, 'apply', 0);
  if (applied.code !== 0) throw new Error(applied.output);
  const env = {
    NODE_EXTRA_CA_CERTS: outside.ca,
    REDIS_URL: `redis://${outsideAddress}:${redisPort}`,
    SALLYPORT_CONTROL_PLANE_URL: `http://${outsideAddress}:${apiPort}`,
    SALLYPORT_ENROLMENT_TOKEN: await controlPlane.enrolmentToken(),
    SALLYPORT_TRANSPARENT_PORT: '15001',
  };
  const sidecar = await startPodSidecar({ namespace: namespaces.pod, folder, hosts, env, start });
  atEnd(() => sidecar.kill());
  const agent: Pod['agent'] = (command, variables = {}) => {
    const set = Object.entries(variables).map(([name, value]) => `${name}=${value}`);
    return runIn(namespaces.pod, [...asUser(agentUid), 'env', ...set, ...command]);
  };
  const validate = () => network(namespaces.pod, 'validate', agentUid);
  const check = () => network(namespaces.pod, 'check', 0);
  return { controlPlane, sidecar, arrived: outside.arrived, folder, agent, validate, check };
}
