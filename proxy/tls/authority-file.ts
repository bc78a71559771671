import { generateKeyPairSync, type KeyObject, randomUUID, X509Certificate } from 'node:crypto';
import {
  chmodSync,
  linkSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import type { Clock } from '../../shared/clock.ts';
import { authorityCertificate, readPrivateKey } from './certificate.ts';

/** The authority as it lies on disk. */
interface StoredAuthority {
  readonly key: KeyObject;
  readonly certPem: string;
  readonly commonName: string;
  readonly notAfterMs: number;
}

const dayMs = 86_400_000;
const lifetimeMs = 730 * dayMs;
// Clocks of containers and laptops disagree; a certificate from the future is useless.
const backdatedMs = 2 * dayMs;
const renewedBeforeMs = 90 * dayMs;

/**
 * Reads the authority from `<dataDir>/ca/authority.pem`, or makes one where there is none or its
 * end is near. Key and certificate share one file that appears whole, so that two processes
 * starting at once end up with the same authority.
 */
export function openAuthority(dataDir: string, clock: Clock): StoredAuthority {
  const folder = join(dataDir, 'ca');
  const file = join(folder, 'authority.pem');
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const present = read(file);
  if (present !== undefined && present.notAfterMs - clock.now() > renewedBeforeMs) return present;
  if (present !== undefined) rmSync(file, { force: true });
  const made = read(create(file, clock));
  if (made === undefined) throw new Error(`${file} vanished while it was being made.`);
  writeFileSync(join(folder, 'ca.crt'), made.certPem, { mode: 0o644 });
  return made;
}

function read(file: string): StoredAuthority | undefined {
  const text = readOptional(file);
  if (text === undefined) return undefined;
  closeToOthers(file);
  const key = readPrivateKey(text);
  const certPem = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----\n/.exec(text)?.[0];
  if (key === undefined || certPem === undefined) throw unusable(file);
  const cert = new X509Certificate(certPem);
  const commonName = /^CN=(.+)$/m.exec(cert.subject)?.[1];
  if (commonName === undefined || !cert.checkPrivateKey(key)) throw unusable(file);
  return { key, certPem, commonName, notAfterMs: Date.parse(cert.validTo) };
}

function unusable(file: string): Error {
  return new Error(`${file} holds no authority of ours. Delete it, and a new one is made.`);
}

function readOptional(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
}

/** A key that everybody could read is burnt; group bits are what volume mounts add, and are taken back. */
function closeToOthers(file: string): void {
  const { mode } = statSync(file);
  if ((mode & 0o007) !== 0) {
    throw new Error(`${file} is open to every user. Delete it, and a new authority is made.`);
  }
  if ((mode & 0o077) !== 0) chmodSync(file, 0o600);
}

function create(file: string, clock: Clock): string {
  const { privateKey: key } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const now = clock.now();
  // A name of its own for every authority: trust stores tell certificates apart by subject.
  const commonName = `Sallyport local authority ${randomUUID().slice(0, 8)}`;
  const certPem = authorityCertificate(
    { key, commonName },
    { notBeforeMs: now - backdatedMs, notAfterMs: now + lifetimeMs },
  );
  const keyPem = key.export({ type: 'pkcs8', format: 'pem' });
  const draft = `${file}.${randomUUID()}`;
  writeFileSync(draft, `${keyPem}${certPem}`, { mode: 0o600, flag: 'wx', flush: true });
  try {
    linkSync(draft, file);
  } catch (error) {
    // Another process was first: its authority counts.
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
  } finally {
    rmSync(draft, { force: true });
  }
  return file;
}
