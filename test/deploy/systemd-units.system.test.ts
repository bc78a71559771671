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
  // systemd verifies that programs exist, so the copied units refer to the programs in this repository.
  for (const name of units) {
    const text = readFileSync(join(folder, name), 'utf8');
    const root = resolve(import.meta.dirname, '../..');
    writeFileSync(join(copies, name), text.replaceAll('/opt/sallyport', root));
  }
}, 120_000);
afterAll(() => cleanup.run());

/** Returns the values of a directive of the unit, in order. */
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

/** Returns the settings that a program reads if its unit starts it: variables and credential files. */
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

  it('does not exceed its exposure threshold in systemd-analyze security', async () => {
    // `ip netns add` changes the mounts of the machine, so this unit needs a higher threshold.
    const threshold = unit === 'sallyport-namespace.service' ? 55 : 22;
    const limits = ['--offline=true', '--no-pager', `--threshold=${threshold}`];
    const { stdout } = await run(analyze, ['security', ...limits, join(copies, unit)]);
    expect(stdout).toContain('Overall exposure level');
  });

  it('gives Sallyport programs no capability, except CAP_NET_ADMIN for the redirect', () => {
    const isRedirect = unit === 'sallyport-network.service';
    expect(valuesOf(unit, 'AmbientCapabilities')).toEqual(isRedirect ? ['CAP_NET_ADMIN'] : []);
    if (valuesOf(unit, 'ExecStart').some((command) => command.includes('/opt/sallyport'))) {
      expect(valuesOf(unit, 'CapabilityBoundingSet')).toEqual([isRedirect ? 'CAP_NET_ADMIN' : '']);
    }
  });

  it("runs in the agent's network namespace only if it is the redirect or the sidecar", () => {
    const isInside = /-(network|sidecar)\.service$/.test(unit);
    expect(valuesOf(unit, 'NetworkNamespacePath')).toEqual(isInside ? ['/run/netns/agent'] : []);
  });

  it('passes secrets only as systemd credentials', () => {
    for (const setting of valuesOf(unit, 'Environment')) {
      const [name = '', value = ''] = setting.split('=');
      if (name.endsWith('_FILE')) expect(value).toMatch(/^%d\//);
      else expect(name).not.toMatch(/KEY|TOKEN|URL|PASSWORD/);
    }
  });
});

describe('the network namespace of the agent', () => {
  /** Returns the commands of a directive as lines of a shell script. */
  const script = (directive: string) =>
    valuesOf('sallyport-namespace.service', directive)
      .map((command) => command.replace(/^-/, '').replace(/\{.*\}/, "'$&'"))
      .join('\n');

  it('reaches other networks through the machine, and is removed completely when its unit stops', async () => {
    if (process.getuid?.() !== 0)
      throw new Error('This test makes network namespaces: run it as root.');
    await findProgram(['ip'], 'iproute2');
    await findProgram(['nft'], 'nftables');
    await findProgram(['sysctl'], 'procps');
    // The commands run in a new network namespace, so that the test does not change the machine.
    const machine = `set -e
mount -t tmpfs tmpfs /run
ip link set lo up
${script('ExecStart')}
ip -n agent route get 192.0.2.1
cat /proc/sys/net/ipv4/ip_forward
nft list chain ip sallyport_agent out
ip netns exec agent ping -c 1 -W 5 10.231.0.1 >/dev/null && echo reached
${script('ExecStop')}
echo "left: $(ip netns list)$(nft list tables)$(ip -o link | grep agent || true)"`;
    await findProgram(['ping'], 'iputils-ping');
    const isolated = ['--net', '--mount', '--propagation', 'private', 'sh', '-c', machine];
    const { stdout } = await run('unshare', isolated);
    expect(stdout).toContain('192.0.2.1 via 10.231.0.1 dev eth0 src 10.231.0.2');
    expect(stdout).toMatch(/^1$/m);
    expect(stdout).toContain('ip saddr 10.231.0.2 masquerade');
    expect(stdout).toMatch(/^reached$/m);
    expect(stdout).toMatch(/^left: $/m);
  });
});

describe('the environment files', () => {
  it('are accepted by the control plane, together with the variables of its unit', () => {
    const source = sourceOf('sallyport-control-plane.service', 'control-plane.env');
    expect(readControlPlane(source)).toMatchObject({
      adminPort: 8081,
      databaseUrl: credentials['%d/database-url'],
      masterKey,
      production: true,
    });
  });

  it('are accepted by the sidecar, together with the variables of its unit', () => {
    const source = sourceOf('sallyport-sidecar.service', 'sidecar.env');
    expect(readSidecar(source)).toMatchObject({
      controlPlaneUrl: 'https://sallyport.example',
      enrolmentToken: 'set_example',
      redisUrl: credentials['%d/redis-url'],
    });
  });
});
