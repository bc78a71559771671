import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Failure } from './failure.ts';

/** A release of an npm package, and the integrity that the registry states for it. */
export interface NpmPackage {
  readonly name: string;
  readonly version: string;
  readonly integrity: string;
}

/** The archive of a package, downloaded once into `cache` and verified at each use. */
export function packageArchive({ name, version, integrity }: NpmPackage, cache: string): string {
  const archive = join(cache, `${name.replace('/', '-')}-${version}.tgz`);
  if (!existsSync(archive)) download(`${name}@${version}`, archive);
  const found = `sha512-${createHash('sha512').update(readFileSync(archive)).digest('base64')}`;
  if (found === integrity) return archive;
  rmSync(archive);
  throw new Failure(`${name} ${version} has the integrity ${found} instead of ${integrity}.`);
}

function download(specifier: string, to: string): void {
  const folder = mkdtempSync(`${to}.`);
  const printed = execFileSync('npm', ['pack', '--json', specifier, '--pack-destination', folder], {
    encoding: 'utf8',
  });
  const [{ filename }] = JSON.parse(printed) as [{ filename: string }];
  renameSync(join(folder, filename), to);
  rmSync(folder, { recursive: true });
}
