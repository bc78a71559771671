import { randomUUID } from 'node:crypto';
import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { trustFiles } from '../../shared/agent/trust-variables.ts';
import { SettingsError } from '../../shared/base/settings.ts';
import { javaTrustStore } from '../../shared/x509/java-trust-store.ts';

/**
 * Writes the CA bundle for the agent's containers, as PEM and as a trust store of Java. Each file
 * appears completely or not at all, because a restarted sidecar replaces files that agents read.
 */
export function writeTrustFiles(directory: string, bundlePem: string): void {
  try {
    replace(join(directory, trustFiles.pem), bundlePem);
    replace(join(directory, trustFiles.java), javaTrustStore(bundlePem));
  } catch (cause) {
    throw new SettingsError(
      `SALLYPORT_TRUST_BUNDLE_DIRECTORY: cannot write to ${directory}. Name an existing directory that this user can write to.`,
      { cause },
    );
  }
}

function replace(path: string, content: string | Buffer): void {
  const draft = `${path}.${randomUUID()}`;
  try {
    writeFileSync(draft, content, { mode: 0o644, flag: 'wx' });
    renameSync(draft, path);
  } finally {
    rmSync(draft, { force: true });
  }
}
