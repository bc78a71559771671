import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { programs } from '../../scripts/bundle/programs.ts';
import { type BuiltImage, buildImage, unpackImage } from '../support/image/built-image.ts';
import { type ContainerOptions, startContainer } from '../support/image/container.ts';
import { type Pod, type PodPrograms, startPod } from '../support/pod/pod.ts';
import { findProgram } from '../support/programs/programs.ts';
import type { Launch } from '../support/system/control-plane.ts';
import { type DemoStage, startDemoStage } from '../support/system/demo-stage.ts';

const folder = fs.mkdtempSync(join(tmpdir(), 'sallyport-run-image-'));
const root = join(folder, 'root');
const host = process.arch === 'arm64' ? 'arm64' : 'amd64';
const sidecarUid = 1337;

let image: BuiltImage;
beforeAll(async () => {
  await findProgram(['runc']);
  const [built] = await buildImage(join(folder, 'image'), host);
  if (built === undefined) throw new Error('no image was built');
  image = built;
  await unpackImage(image, root);
}, 300_000);
afterAll(() => fs.rmSync(folder, { recursive: true, force: true }));

const container = (options: Omit<ContainerOptions, 'image' | 'root'>) =>
  startContainer({ image, root, ...options });

/** Runs a command in a container until it exits; returns its exit code and output. */
async function runToEnd(args: readonly string[], options: Partial<ContainerOptions> = {}) {
  const program = container({ args, ...options });
  return { code: await program.exited(), output: program.output() };
}

/** Starts a program from the image: the sidecar as uid 1337, the control plane as the image's user. */
const fromImage: Launch = (
  name,
  { NODE_EXTRA_CA_CERTS: caPath, SALLYPORT_DATA_DIR: data = '', ...env },
) => {
  const uid = name === 'sidecar' ? sidecarUid : 65532;
  fs.mkdirSync(data, { recursive: true });
  fs.chownSync(data, uid, uid);
  const caFile = caPath === undefined ? {} : { '/etc/extra-ca.pem': caPath };
  return container({
    args: [name],
    uid,
    env: caPath === undefined ? env : { ...env, NODE_EXTRA_CA_CERTS: '/etc/extra-ca.pem' },
    volumes: { '/var/lib/sallyport': data, ...caFile },
  });
};

/** The programs of a pod as containers in its network namespace, with the rights that the chart gives. */
const podFromImage = (): PodPrograms => ({
  async network(namespace, command, uid) {
    const { code, output } = await runToEnd(['sallyport', 'network', command], {
      uid,
      capabilities: uid === 0 ? ['CAP_NET_ADMIN'] : [],
      network: `/run/netns/${namespace}`,
    });
    return { code: code ?? -1, output };
  },
  startSidecar({ namespace, uid, dataDir, hostsFile, env }) {
    const { NODE_EXTRA_CA_CERTS: caPath = '', ...others } = env;
    return container({
      args: ['sidecar'],
      uid,
      env: { ...others, NODE_EXTRA_CA_CERTS: '/etc/extra-ca.pem' },
      volumes: {
        '/var/lib/sallyport': dataDir,
        '/etc/extra-ca.pem': caPath,
        '/etc/hosts': hostsFile,
      },
      network: `/run/netns/${namespace}`,
    });
  },
});

describe('containers of the image, read-only and without capabilities', () => {
  it('print the help of the command line', async () => {
    const { code, output } = await runToEnd(['sallyport', '--help']);
    expect(output).toContain('Usage: sallyport <command> [options]');
    expect(code).toBe(0);
  });

  it.each(['up', 'demo'])(
    'refuse `sallyport %s`, because the image has no database',
    async (command) => {
      const { code, output } = await runToEnd(['sallyport', command]);
      expect(output).toContain(
        `sallyport: \`sallyport ${command}\` is not available in the container image`,
      );
      expect(code).toBe(1);
    },
  );

  it('refuse to start a control plane without a database', async () => {
    const { code, output } = await runToEnd(['control-plane']);
    expect(output).toContain(
      'sallyport: DATABASE_URL is missing: the container image has no embedded database.',
    );
    expect(code).toBe(1);
  });

  it('refuse to start a sidecar without Redis', async () => {
    const { code, output } = await runToEnd(['sidecar'], { uid: sidecarUid });
    expect(output).toContain('sallyport: REDIS_URL is missing');
    expect(code).toBe(1);
  });

  it('refuse to start an injector outside of a cluster', async () => {
    const { code, output } = await runToEnd(['injector']);
    expect(output).toContain('sallyport: SALLYPORT_INJECTION_FILE: is missing; the chart sets it');
    expect(code).toBe(1);
  });

  it.each(programs)('start $name with code that was compiled before', async (program) => {
    const { name, nodeFlag, v8Flags = [] } = program;
    const code = `for (const flag of ${JSON.stringify(v8Flags)}) require('node:v8').setFlagsFromString(flag);
      const { readFileSync } = require('node:fs');
      const filename = '/opt/sallyport/${name}/main.js';
      const cachedData = readFileSync(filename + '.cache');
      const script = new (require('node:vm').Script)(readFileSync(filename, 'latin1'), { filename, cachedData });
      console.log('rejected:', script.cachedDataRejected);`;
    const flags = nodeFlag === undefined ? [] : [nodeFlag];
    const { output } = await runToEnd(['node', ...flags, '--eval', code]);
    expect(output).toContain('rejected: false');
  });

  it('run under any user', async () => {
    const { code } = await runToEnd(['sallyport', '--help'], { uid: 1_000_660_000 });
    expect(code).toBe(0);
  });
});

describe('control plane and sidecar from the image, on real Postgres and Redis', () => {
  let stage: DemoStage;
  beforeAll(async () => {
    stage = await startDemoStage({ launch: fromImage });
  });
  afterAll(() => stage?.close());

  it('serve the API reference and its files', async () => {
    const { origin } = stage.separate;
    for (const path of [
      '/api/docs',
      '/api/docs/swagger-ui-bundle.js',
      '/api/docs/swagger-ui.css',
    ]) {
      const response = await fetch(`${origin}${path}`);
      expect(response.status, path).toBe(200);
      await response.arrayBuffer();
    }
  });

  it('pass every step of the demo’s tour, and then exit with 0 on SIGTERM', async () => {
    const { succeeded, lines } = await stage.run();
    expect(succeeded, lines.join('\n')).toBe(true);
    expect(lines.filter((line) => line.startsWith('✓'))).toHaveLength(11);
    expect(await stage.separate.sidecar.stop()).toBe(0);
    expect(await stage.separate.controlPlane.stop()).toBe(0);
  });
});

describe('a pod of containers of the image, whose connections are redirected', () => {
  let pod: Pod;
  beforeAll(async () => {
    pod = await startPod(podFromImage);
  }, 120_000);
  afterAll(() => pod?.close());

  it('has the rules that an init container as root with NET_ADMIN only applied', async () => {
    const { code, output } = await pod.check();
    expect(output).toContain('The rules are active and complete (nftables).');
    expect(code).toBe(0);
  });

  it('is valid for a user without capabilities', async () => {
    const { code, output } = await pod.validate();
    expect(output).toContain('connections and DNS queries reach the sidecar of user 1337');
    expect(code).toBe(0);
  });

  it('has a sidecar without capabilities that answers a redirected connection', async () => {
    expect(pod.sidecar.output()).toContain('the sidecar accepts redirected connections');
    const curl = ['curl', '-sS', '--max-time', '60', '--cacert', pod.sidecar.caPath];
    for (const scheme of ['https', 'http']) {
      const { output } = await pod.agent([...curl, `${scheme}://unbound.example/`]);
      expect(output).toContain('"decision":"deny"');
    }
  });
});

describe('an init container of the image, not root, with NET_ADMIN only', () => {
  const options = { uid: 65534, capabilities: ['CAP_NET_ADMIN'], network: 'own' };

  it('loads and lists rules with nft', async () => {
    const rules =
      'add table inet sallyport; add chain inet sallyport out { type nat hook output priority -100; }; add rule inet sallyport out meta l4proto tcp redirect to :15001';
    const { code, output } = await runToEnd(['nft', '--echo', rules], options);
    expect(output).toContain('meta l4proto tcp redirect to :15001');
    expect(code).toBe(0);
  });

  it('loads rules with nft if a Node program starts nft', async () => {
    const code = `const { spawnSync } = require('node:child_process');
      const { status, stdout, stderr } = spawnSync('nft', ['add table inet sallyport; list ruleset'], { encoding: 'utf8' });
      console.log(stdout, stderr);
      process.exit(status);`;
    const result = await runToEnd(['node', '--eval', code], options);
    expect(result.output).toContain('table inet sallyport');
    expect(result.code).toBe(0);
  });

  it('cannot change rules without the capability', async () => {
    const { code, output } = await runToEnd(['nft', 'add table inet sallyport'], {
      ...options,
      capabilities: [],
    });
    expect(code).not.toBe(0);
    expect(output).toMatch(/operation not permitted/i);
  });
});
