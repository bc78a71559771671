import { createHash, randomUUID } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { getCACertificates } from 'node:tls';
import { SettingsError } from '../shared/base/settings.ts';
import type { WayOut } from './agent-environment.ts';

/**
 * Writes the files that a command trusts, into the user's cache folder under a name made of their
 * content: they outlive the command, as its children may, and commands at once do not disturb
 * each other. What the shell added by `NODE_EXTRA_CA_CERTS` stays trusted.
 */
export function writeTrustFiles(
  caPem: string,
  env: Readonly<Record<string, string | undefined>>,
): Pick<WayOut, 'addedCaPath' | 'wholeCaPath'> {
  const extra = getCACertificates('extra');
  const system = getCACertificates('system');
  const machine = system.length > 0 ? system : getCACertificates('bundled');
  const folder = join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'sallyport');
  try {
    mkdirSync(folder, { recursive: true });
    return {
      addedCaPath: keep(folder, 'added', [caPem, ...extra]),
      wholeCaPath: keep(folder, 'whole', [caPem, ...extra, ...machine]),
    };
  } catch (cause) {
    throw new SettingsError(
      `The certificates cannot be written to ${folder}: set XDG_CACHE_HOME to a folder that can be written to.`,
      { cause },
    );
  }
}

function keep(folder: string, kind: string, pems: readonly string[]): string {
  const text = [...new Set(pems.map((pem) => `${pem.trim()}\n`))].join('');
  const name = createHash('sha256').update(text).digest('hex').slice(0, 16);
  const path = join(folder, `${kind}-${name}.pem`);
  if (read(path) === text) return path;
  const draft = `${path}.${randomUUID()}`;
  writeFileSync(draft, text, { mode: 0o644, flag: 'wx' });
  renameSync(draft, path);
  return path;
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}
