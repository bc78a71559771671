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
import { getCACertificates } from 'node:tls';
import type { Clock } from '../../shared/base/clock.ts';
import { SettingsError } from '../../shared/base/settings.ts';
import {
  authorityCertificate,
  hasConstraints,
  readPrivateKey,
} from '../../shared/x509/certificate.ts';
import type { NameConstraints } from '../../shared/x509/name-constraints.ts';

/** The authority as it is stored on disk. */
interface StoredAuthority {
  readonly key: KeyObject;
  readonly cert: X509Certificate;
  readonly certPem: string;
  readonly commonName: string;
  readonly notAfterMs: number;
}

const dayMs = 86_400_000;
const lifetimeMs = 730 * dayMs;
// Certificates are backdated, because clocks differ and clients reject a certificate that is not
// valid yet.
const backdatedMs = 2 * dayMs;
const renewedBeforeMs = 90 * dayMs;

interface AuthorityOptions {
  readonly dataDir: string;
  readonly clock: Clock;
  /** The hosts for which the authority may issue certificates; undefined means any. */
  readonly permitted?: NameConstraints | undefined;
}

/**
 * Reads the authority from `<dataDir>/ca/authority.pem`. Creates a new one if the file is missing,
 * or if the stored certificate expires soon, is not valid yet, or permits hosts other than
 * `permitted`. Key and certificate share one file that is created atomically, so that two processes
 * that start at the same time use the same authority.
 */
export function openAuthority(options: AuthorityOptions): StoredAuthority {
  const { dataDir, clock, permitted } = options;
  const folder = join(dataDir, 'ca');
  const file = join(folder, 'authority.pem');
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const present = read(file);
  const isUsable = present !== undefined && mayServe(present.cert, clock.now(), permitted);
  if (present !== undefined && !isUsable) rmSync(file, { force: true });
  const authority = isUsable ? present : read(create(file, { clock, permitted }));
  if (authority === undefined) throw new Error(`${file} vanished while it was being made.`);
  // Written at every start, so that agents trust the key that this process signs with.
  writeFileSync(join(folder, 'ca.crt'), authority.certPem, { mode: 0o644 });
  return authority;
}

function mayServe(cert: X509Certificate, now: number, permitted?: NameConstraints): boolean {
  const isInTime =
    cert.validFromDate.getTime() <= now && cert.validToDate.getTime() - now > renewedBeforeMs;
  return isInTime && hasConstraints(cert, permitted);
}

function read(file: string): StoredAuthority | undefined {
  const text = readOptional(file);
  if (text === undefined) return undefined;
  closeToOthers(file);
  const key = readPrivateKey(text);
  const certPem = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----\n/.exec(text)?.[0];
  if (key === undefined || certPem === undefined) throw unusable(file);
  const cert = readCertificate(certPem);
  if (cert === undefined) throw unusable(file);
  const commonName = /^CN=(.+)$/m.exec(cert.subject)?.[1];
  const isWhole = cert.ca && cert.checkPrivateKey(key) && cert.verify(cert.publicKey);
  if (commonName === undefined || !isWhole) throw unusable(file);
  return { key, cert, certPem, commonName, notAfterMs: cert.validToDate.getTime() };
}

function readCertificate(pem: string): X509Certificate | undefined {
  try {
    return new X509Certificate(pem);
  } catch {
    return undefined;
  }
}

function unusable(file: string): SettingsError {
  return new SettingsError(`${file} holds no authority of ours. Delete it, and a new one is made.`);
}

function readOptional(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
}

/**
 * Refuses a key file that every user can access or that another user owns; files of root are
 * accepted, because mounted volumes belong to root. Removes group permissions, which mounts may
 * add.
 */
function closeToOthers(file: string): void {
  const { mode, uid } = statSync(file);
  if (uid !== 0 && uid !== process.getuid?.()) {
    throw new Error(`${file} belongs to another user. Delete it, and a new authority is made.`);
  }
  if ((mode & 0o007) !== 0) {
    throw new Error(`${file} is open to every user. Delete it, and a new authority is made.`);
  }
  if ((mode & 0o077) !== 0) chmodSync(file, 0o600);
}

function create(
  file: string,
  { clock, permitted }: Pick<AuthorityOptions, 'clock' | 'permitted'>,
): string {
  const { privateKey: key } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const now = clock.now();
  // Every authority has its own name, because trust stores identify certificates by subject.
  const commonName = `Sallyport local authority ${randomUUID().slice(0, 8)}`;
  const certPem = authorityCertificate(
    { key, commonName },
    { notBeforeMs: now - backdatedMs, notAfterMs: now + lifetimeMs },
    permitted,
  );
  const keyPem = key.export({ type: 'pkcs8', format: 'pem' });
  const draft = `${file}.${randomUUID()}`;
  writeFileSync(draft, `${keyPem}${certPem}`, { mode: 0o600, flag: 'wx', flush: true });
  try {
    linkSync(draft, file);
  } catch (error) {
    // Another process created the file first, so its authority is used.
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
  } finally {
    rmSync(draft, { force: true });
  }
  return file;
}

/**
 * The local authority and the authorities that this process trusts, as one PEM file, because most
 * clients replace their own list with the given file (`SSL_CERT_FILE`, `REQUESTS_CA_BUNDLE`, …).
 */
export function trustBundle(certPem: string): string {
  return [certPem, ...getCACertificates('default')].map((pem) => `${pem.trim()}\n`).join('');
}
