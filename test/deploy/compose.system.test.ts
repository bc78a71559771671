import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, expect, it } from 'vitest';
import { goModule } from '../support/programs/go.ts';
import { deployFolder } from '../support/programs/monitoring-files.ts';

const run = promisify(execFile);
const file = join(deployFolder, 'compose/compose.yaml');

interface Service {
  readonly image: string;
  readonly user?: string;
  readonly environment?: Readonly<Record<string, string>>;
  readonly network_mode?: string;
  readonly cap_add?: readonly string[];
  readonly cap_drop?: readonly string[];
  readonly ports?: readonly { readonly host_ip?: string }[];
  readonly healthcheck?: { readonly test: readonly string[] };
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
}

interface Project {
  readonly services: Readonly<Record<string, Service>>;
  readonly secrets: Readonly<Record<string, { readonly file: string }>>;
}

let compose: string;
let services: Project['services'];
let secrets: Project['secrets'];
beforeAll(async () => {
  compose = await goModule(join(import.meta.dirname, 'compose'));
  const { stdout } = await run(compose, [file, 'SALLYPORT_IMAGE=registry.example/sallyport:1']);
  ({ services, secrets } = JSON.parse(stdout) as Project);
}, 900_000);

it('the compose file is a valid Compose project with the expected services', () => {
  expect(Object.keys(services).sort()).toEqual([
    'agent',
    'control-plane',
    'network',
    'payments',
    'postgres',
    'redis',
    'sidecar',
    'validate',
    'volumes',
  ]);
  expect(services['control-plane']?.image).toBe('registry.example/sallyport:1');
});

it('the compose file is refused without an image, and the error states how to set it', async () => {
  await expect(run(compose, [file])).rejects.toThrow(/Set SALLYPORT_IMAGE to the image/);
});

it("the agent uses the sidecar's network, and starts only after redirect and validation succeeded", () => {
  for (const name of ['agent', 'payments']) {
    expect(services[name]?.network_mode).toBe('service:sidecar');
    expect(services[name]?.depends_on?.validate?.condition).toBe('service_completed_successfully');
  }
  expect(services.validate?.depends_on).toMatchObject({
    network: { condition: 'service_completed_successfully' },
    sidecar: { condition: 'service_healthy' },
  });
});

it('only the sidecar runs under its uid, and only one service has CAP_NET_ADMIN', () => {
  const withUid = Object.entries(services).filter(([, { user }]) => user?.startsWith('1337'));
  expect(withUid.map(([name]) => name)).toEqual(['sidecar']);
  const capable = Object.entries(services).filter(([, one]) => one.cap_add !== undefined);
  expect(Object.fromEntries(capable.map(([name, one]) => [name, one.cap_add]))).toEqual({
    network: ['NET_ADMIN'],
    volumes: ['CHOWN'],
  });
  for (const name of ['agent', 'payments', 'sidecar', 'control-plane', 'network', 'validate']) {
    expect(services[name]?.cap_drop, name).toEqual(['ALL']);
  }
});

it('ports are published on loopback only', () => {
  const ports = Object.values(services).flatMap((one) => one.ports ?? []);
  expect(ports.map(({ host_ip }) => host_ip)).toEqual(['127.0.0.1']);
});

it('secrets are passed as files only, from a folder that git ignores', async () => {
  const folder = join(deployFolder, 'compose/secrets');
  for (const secret of Object.values(secrets)) expect(join(secret.file, '..')).toBe(folder);
  await run('git', ['check-ignore', '--quiet', join(folder, 'master-key')], { cwd: deployFolder });
  for (const [name, { environment = {} }] of Object.entries(services)) {
    for (const [variable, value] of Object.entries(environment)) {
      const isSecret = /PASSWORD|TOKEN|MASTER_KEY|DATABASE_URL|REDIS_URL/.test(variable);
      expect(!isSecret || value.startsWith('/run/secrets/'), `${name}: ${variable}`).toBe(true);
    }
  }
});

it('each server has a health check', () => {
  for (const name of ['postgres', 'redis', 'control-plane', 'sidecar']) {
    expect(services[name]?.healthcheck?.test[0], name).toBe('CMD');
  }
});
