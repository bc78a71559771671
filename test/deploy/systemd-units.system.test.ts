import { execFile } from 'node:child_process';
import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readConfig as readControlPlane } from '../../control-plane/platform/config/config.ts';
import { readConfig as readSidecar } from '../../proxy/settings/config.ts';
import { deployFolder } from '../support/programs/monitoring-files.ts';
import { findProgram } from '../support/programs/programs.ts';
import { Cleanup, temporaryFolder } from '../support/sidecar/proxy.ts';

const run = promisify(execFile);
const folder = join(deployFolder, 'systemd');
const units = readdirSync(folder).filter((name) => name.endsWith('.service'));
const cleanup = new Cleanup();
let analyze: string;
let copies: string;

beforeAll(async () => {
  analyze = await findProgram(['systemd-analyze'], 'systemd');
  copies = temporaryFolder(cleanup);
  cpSync(folder, copies, { recursive: true });
  // systemd verifies that programs exist, so the copies name this clone.
  for (const name of units) {
    const text = readFileSync(join(folder, name), 'utf8');
    const root = resolve(import.meta.dirname, '../..');
    writeFileSync(join(copies, name), text.replaceAll('/opt/sallyport', root));
  }
}, 120_000);
afterAll(() => cleanup.run());

/** The values of a directive, in order. */
function valuesOf(unit: string, directive: string): string[] {
  const lines = readFileSync(join(folder, unit), 'utf8').split('\n');
  return lines.flatMap((line) => {
    const [name, ...value] = line.split('=');
    return name === directive ? [value.join('=')] : [];
  });
}

const masterKey = Buffer.alloc(32, 7).toString('base64');
const credentials: Readonly<Record<string, string>> = {
  '%d/database-url': 'postgresql://database.example/sallyport',
  '%d/redis-url': 'rediss://redis.example:6379',
  '%d/master-key': masterKey,
  '%d/enrolment-token': 'set_example',
};

/** The settings of a program as its unit starts it. */
function sourceOf(unit: string, environmentFile: string) {
  const text = readFileSync(join(folder, environmentFile), 'utf8');
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  const pairs = [...lines, ...valuesOf(unit, 'Environment')].map((line) => line.split('='));
  return {
    env: Object.fromEntries(pairs) as Record<string, string>,
    readFile: (path: string) => credentials[path] ?? '',
  };
}

describe.each(units)('%s', (unit) => {
  it('is accepted by systemd-analyze verify without a warning', async () => {
    const { stdout, stderr } = await run(analyze, ['verify', '--man=no', join(copies, unit)]);
    expect(`${stdout}${stderr}`).toBe('');
  });

  it('has an exposure of at most 2.2 in systemd-analyze security', async () => {
    const limits = ['--offline=true', '--no-pager', '--threshold=22'];
    const { stdout } = await run(analyze, ['security', ...limits, join(copies, unit)]);
    expect(stdout).toContain('Overall exposure level');
  });

  it('has a capability only if it applies the redirect, and then CAP_NET_ADMIN alone', () => {
    const isRedirect = unit === 'sallyport-network.service';
    expect(valuesOf(unit, 'CapabilityBoundingSet')).toEqual([isRedirect ? 'CAP_NET_ADMIN' : '']);
    expect(valuesOf(unit, 'AmbientCapabilities')).toEqual(isRedirect ? ['CAP_NET_ADMIN'] : []);
  });

  it('names no secret but as a credential', () => {
    for (const setting of valuesOf(unit, 'Environment')) {
      const [name = '', value = ''] = setting.split('=');
      if (name.endsWith('_FILE')) expect(value).toMatch(/^%d\//);
      else expect(name).not.toMatch(/KEY|TOKEN|URL|PASSWORD/);
    }
  });
});

describe('the environment files', () => {
  it('are settings that the control plane accepts, with those of its unit', () => {
    const source = sourceOf('sallyport-control-plane.service', 'control-plane.env');
    expect(readControlPlane(source)).toMatchObject({
      adminPort: 8081,
      databaseUrl: credentials['%d/database-url'],
      masterKey,
      production: true,
    });
  });

  it('are settings that the sidecar accepts, with those of its unit', () => {
    const source = sourceOf('sallyport-sidecar.service', 'sidecar.env');
    expect(readSidecar(source)).toMatchObject({
      controlPlaneUrl: 'https://sallyport.example',
      enrolmentToken: 'set_example',
      redisUrl: credentials['%d/redis-url'],
    });
  });
});
