import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { programs } from '../../scripts/bundle/programs.ts';
import { type BuiltImage, buildImage, unpackImage } from '../support/image/built-image.ts';

const folder = fs.mkdtempSync(join(tmpdir(), 'sallyport-image-'));
const bytesMax = 150 * 1024 ** 2;
/** The values of the ELF header field `e_machine`. */
const machines = { amd64: 62, arm64: 183 } as const;

const nativePackage = {
  amd64: '@koromix/koffi-linux-x64',
  arm64: '@koromix/koffi-linux-arm64',
} as const;

let images: readonly BuiltImage[];
beforeAll(async () => {
  images = await buildImage(join(folder, 'first'), 'amd64,arm64');
  for (const image of images) await unpackImage(image, join(folder, image.architecture));
}, 300_000);
afterAll(() => fs.rmSync(folder, { recursive: true, force: true }));

it('the image is reproducible: a second build has the same digest', async () => {
  const [again] = await buildImage(join(folder, 'second'), 'amd64,arm64');
  expect(again?.digest).toMatch(/^sha256:/);
  expect(again?.digest).toBe(images[0]?.digest);
}, 300_000);

describe.each(['amd64', 'arm64'] as const)('the image for %s', (architecture) => {
  const root = join(folder, architecture);
  const find = (...args: readonly string[]) =>
    execFileSync('find', [root, ...args], { encoding: 'utf8' })
      .split('\n')
      .filter(Boolean);
  const image = () => {
    const found = images.find((one) => one.architecture === architecture);
    if (found === undefined) throw new Error(`no image for ${architecture}`);
    return found;
  };
  const read = (path: string) => fs.readFileSync(join(root, path), 'utf8');

  it('takes at most 150 MB', () => {
    const [line = ''] = execFileSync('du', ['-sb', root], { encoding: 'utf8' }).split('\t');
    expect(Number(line)).toBeGreaterThan(50 * 1024 ** 2);
    expect(Number(line)).toBeLessThan(bytesMax);
  });

  it('contains binaries of its architecture only', () => {
    const binaries = find('-type', 'f', '-size', '+0').filter(
      (path) => elfMachine(path) !== undefined,
    );
    for (const name of ['/usr/local/bin/node', '/usr/sbin/nft', '/koffi.node']) {
      expect(binaries.filter((path) => path.endsWith(name))).toHaveLength(1);
    }
    expect(binaries.filter((path) => elfMachine(path) !== machines[architecture])).toEqual([]);
  });

  it('has no shell, no package manager and no interpreter other than Node', () => {
    const names = find('-type', 'f', '-perm', '/111').map((path) =>
      path.slice(path.lastIndexOf('/') + 1),
    );
    const executables = names.filter((name) => !/\.so(\.|$)|^ld-linux/.test(name)).sort();
    const expected = ['nft', 'node', ...programs.map(({ name }) => name)];
    expect(executables).toEqual(expected.toSorted());
    expect(fs.existsSync(join(root, 'bin/sh'))).toBe(false);
  });

  it('has no setuid or setgid file, and file capabilities on nft and node only', () => {
    expect(find('-perm', '/6000')).toEqual([]);
    const printed = execFileSync('getcap', ['-r', root], { encoding: 'utf8' });
    expect(printed.replaceAll(root, '').trim().split('\n').sort()).toEqual([
      '/usr/local/bin/node cap_net_admin=p',
      '/usr/sbin/nft cap_net_admin=ep',
    ]);
  });

  it('belongs to root, is readable by every user, and is writable for other users in two empty folders only', () => {
    const relative = (...args: readonly string[]) =>
      find('-not', '-type', 'l', ...args).map((path) => path.slice(root.length));
    expect(relative('-not', '-user', 'root')).toEqual([]);
    expect(relative('-not', '-perm', '-444')).toEqual([]);
    const writable = relative('-perm', '/022').toSorted();
    expect(writable).toEqual(['/tmp', '/var/lib/sallyport']);
    expect(writable.flatMap((path) => fs.readdirSync(join(root, path)))).toEqual([]);
  });

  it('states its user, its stop signal and its labels', () => {
    const { User, Cmd, StopSignal, Labels } = image().config;
    expect({ User, Cmd, StopSignal }).toEqual({
      User: '65532:65532',
      Cmd: ['control-plane'],
      StopSignal: 'SIGTERM',
    });
    expect(Labels['org.opencontainers.image.licenses']).toBe('Apache-2.0');
    expect(Labels['org.opencontainers.image.version']).toMatch(/^\d+\.\d+\.\d+$/);
  });

  it('has a bill of materials that lists every bundled package, Node and every Debian package', () => {
    const bill = JSON.parse(read('usr/share/sbom/sallyport.cdx.json'));
    const purls = bill.components.map(({ purl }: { purl: string }) => purl);
    const bundled = JSON.parse(read('opt/sallyport/packages.json')) as {
      name: string;
      version: string;
    }[];
    expect(bundled.map(({ name }) => name)).toEqual(
      expect.arrayContaining([
        'express',
        'undici',
        'zod',
        'swagger-ui-dist',
        'koffi',
        nativePackage[architecture],
      ]),
    );
    for (const { name, version } of bundled) {
      expect(purls).toContain(`pkg:npm/${name.replace('@', '%40')}@${version}`);
      expect(read('opt/sallyport/LICENSES.txt')).toContain(`${name} ${version} (`);
    }
    const debian = fs.readdirSync(join(root, 'var/lib/dpkg/status.d'));
    expect(debian).toContain('libc6');
    for (const name of debian) {
      expect(
        purls.some((purl: string) =>
          purl.startsWith(`pkg:deb/debian/${encodeURIComponent(name)}@`),
        ),
        name,
      ).toBe(true);
    }
    expect(purls.some((purl: string) => purl.startsWith('pkg:generic/node@'))).toBe(true);
    expect(purls).toHaveLength(bundled.length + debian.length + 1);
  });
});

/** Returns the processor number in the header of an ELF file, or undefined for other files. */
function elfMachine(path: string): number | undefined {
  const head = Buffer.alloc(20);
  const file = fs.openSync(path, 'r');
  fs.readSync(file, head);
  fs.closeSync(file);
  return head.subarray(0, 4).toString('latin1') === '\x7fELF' ? head.readUInt16LE(18) : undefined;
}
