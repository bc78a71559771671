import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { helmBuildMs, type Manifest } from '../support/charts/helm.ts';
import { freshDatabase } from '../support/programs/postgres.ts';
import { freePort, type Program, startProgram } from '../support/programs/processes.ts';
import { startRedis, type TestRedis } from '../support/programs/redis.ts';
import { Cleanup, temporaryFolder } from '../support/sidecar/proxy.ts';
import { openChartStage } from './stage.ts';

interface Container {
  readonly args: readonly string[];
  readonly env?: readonly { readonly name: string; readonly value: string }[];
  readonly ports?: readonly { readonly name: string; readonly containerPort: number }[];
  readonly [probe: string]: unknown;
}

const cleanup = new Cleanup();
let manifests: readonly Manifest[];
let database: Awaited<ReturnType<typeof freshDatabase>>;
let redis: TestRedis;
let secrets: string;
/** For each port name of the chart's container, the port that the test uses on this machine. */
const ports = new Map<string, number>();

beforeAll(async () => {
  const stage = await openChartStage();
  cleanup.add(() => stage.close());
  const alone = { injector: { enabled: false }, workloadIdentity: { cluster: { issuer: '' } } };
  ({ manifests } = await stage.render('external', alone));
  database = await freshDatabase();
  redis = await startRedis();
  secrets = temporaryFolder(cleanup);
  writeFileSync(join(secrets, 'database-url'), `${database.url}\n`);
  writeFileSync(join(secrets, 'redis-url'), redis.url);
  writeFileSync(join(secrets, 'master-key'), randomBytes(32).toString('base64'));
  for (const { name } of containerOf('Deployment').ports ?? []) ports.set(name, await freePort());
}, helmBuildMs);
afterAll(async () => {
  await cleanup.run();
  await redis?.stop();
  await database?.drop();
});

function containerOf(kind: string): Container {
  const manifest = manifests.find((one) => one.kind === kind);
  const spec = kind === 'Pod' ? manifest?.spec : manifest?.spec.template.spec;
  return spec.containers[0] as Container;
}

/** Starts the program of a container as the image does, with the container's environment. */
function start({ args, env = [] }: Container, given: readonly string[] = args): Program {
  const [name = '', ...rest] = given;
  const file = name === 'sallyport' ? 'cli/main.ts' : `${name}/main.ts`;
  const values = env.map(({ name, value }) => [name, local(value)]);
  return startProgram(file, Object.fromEntries(values), { args: rest });
}

/** Returns the value of a variable with the folders and ports of this machine. */
function local(value: string): string {
  const container = containerOf('Deployment').ports ?? [];
  const port = container.find(({ containerPort }) => String(containerPort) === value);
  const address = value === '0.0.0.0' ? '127.0.0.1' : value;
  if (port !== undefined) return String(ports.get(port.name));
  return address.replace('/run/secrets/sallyport', secrets);
}

it('the manifests migrate, start and stop a real control plane, which passes its probes and helm test', async () => {
  const migration = start(containerOf('Job'));
  expect(await migration.exited(), migration.output()).toBe(0);
  expect(migration.output()).toContain('Applied ');

  const container = containerOf('Deployment');
  const controlPlane = start(container);
  try {
    const [name = '', command = '', , ...options] = containerOf('Pod').args;
    const url = `http://127.0.0.1:${ports.get('api')}`;
    const helmTest = start(containerOf('Pod'), [name, command, url, ...options]);
    expect(await helmTest.exited(), helmTest.output() + controlPlane.output()).toBe(0);
    for (const probe of ['startupProbe', 'livenessProbe', 'readinessProbe']) {
      const { httpGet } = container[probe] as { httpGet: { path: string; port: string } };
      const answer = await fetch(`http://127.0.0.1:${ports.get(httpGet.port)}${httpGet.path}`);
      expect(answer.status, probe).toBe(200);
    }
    // A start would log the migrations that it applies; the Job has already applied all of them.
    expect(controlPlane.output()).not.toContain('migrated the database');
  } finally {
    expect(await controlPlane.stop()).toBe(0);
  }
});
