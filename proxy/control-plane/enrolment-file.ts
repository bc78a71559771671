import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
} from 'node:crypto';
import fs from 'node:fs';
import { join } from 'node:path';
import { SettingsError } from '../../shared/base/settings.ts';
import type { CallAnswer } from '../../shared/contract/base/client.ts';
import type { enrolSidecar } from '../../shared/contract/sidecars.ts';
import {
  exportPrivateKey,
  generateSigningKey,
  importPrivateKey,
  type PublicJwk,
  type SigningKey,
} from '../../shared/crypto/signing-key.ts';
import type { Identity } from '../base/identity.ts';

/** The keys of a sidecar. Private keys never leave the data directory. */
export interface SidecarKeys {
  readonly signingKey: SigningKey;
  /** X25519; credentials are encrypted to it. */
  readonly encryptionKey: KeyObject;
}

/** The result of enrolment: the identity, the sidecar's own keys, and the keys that it pins. */
export interface Enrolment extends SidecarKeys {
  readonly identity: Identity;
  /** Pinned keys; snapshots and heartbeats must be signed with one of them. */
  readonly sectionKeys: readonly PublicJwk[];
}

interface StoredEnrolment {
  readonly identity: Identity;
  /** PKCS #8 DER, base64. */
  readonly signingKey: string;
  readonly encryptionKey: string;
  readonly sectionKeys: readonly PublicJwk[];
}

/** The stored enrolment; undefined if the sidecar has not enrolled. */
export function readEnrolment(dataDir: string): Enrolment | undefined {
  const path = enrolmentFile(dataDir);
  return fs.existsSync(path) ? read(path) : undefined;
}

/** The identity of the data directory's sidecar; undefined if the sidecar has not enrolled. */
export function enrolledIdentity(dataDir: string): Identity | undefined {
  return readEnrolment(dataDir)?.identity;
}

export function storeEnrolment(dataDir: string, enrolment: Enrolment): void {
  const { identity, signingKey, encryptionKey, sectionKeys } = enrolment;
  fs.mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  replaceFile(enrolmentFile(dataDir), {
    identity,
    signingKey: exportPrivateKey(signingKey).toString('base64'),
    encryptionKey: encryptionKey.export({ format: 'der', type: 'pkcs8' }).toString('base64'),
    sectionKeys,
  });
}

/** Stores this key as the only section key to trust from the next start on. */
export function pinSectionKey(dataDir: string, key: PublicJwk): void {
  const path = enrolmentFile(dataDir);
  const stored = JSON.parse(fs.readFileSync(path, 'utf8')) as StoredEnrolment;
  replaceFile(path, { ...stored, sectionKeys: [key] });
}

export function newSidecarKeys(): SidecarKeys {
  const { privateKey } = generateKeyPairSync('x25519');
  return { signingKey: generateSigningKey(), encryptionKey: privateKey };
}

/** The public keys as a request to enrol sends them. */
export function sentKeys({ signingKey, encryptionKey }: SidecarKeys) {
  const { crv, x } = signingKey.publicJwk;
  const encryption = createPublicKey(encryptionKey).export({ format: 'jwk' });
  return {
    signing_jwk: { kty: 'OKP' as const, crv, x },
    encryption_jwk: { kty: 'OKP' as const, crv: encryption.crv ?? '', x: encryption.x ?? '' },
  };
}

/** Builds the enrolment from the control plane's response. */
export function enrolmentOf(
  keys: SidecarKeys,
  enrolled: CallAnswer<typeof enrolSidecar>,
): Enrolment {
  return {
    ...keys,
    identity: {
      sidecarId: enrolled.sidecar_id,
      tenantId: enrolled.tenant_id,
      agentId: enrolled.agent_id,
      userId: enrolled.user_id,
      environment: enrolled.environment,
    },
    sectionKeys: enrolled.section_keys as readonly PublicJwk[],
  };
}

function enrolmentFile(dataDir: string): string {
  return join(dataDir, 'enrolment.json');
}

function replaceFile(path: string, stored: StoredEnrolment): void {
  const file = fs.openSync(`${path}.new`, 'w', 0o600);
  try {
    fs.writeFileSync(file, JSON.stringify(stored));
    fs.fsyncSync(file);
  } finally {
    fs.closeSync(file);
  }
  fs.renameSync(`${path}.new`, path);
}

/** A damaged enrolment cannot be repaired, so the sidecar must be enrolled again. */
function read(path: string): Enrolment {
  try {
    return revive(JSON.parse(fs.readFileSync(path, 'utf8')) as StoredEnrolment);
  } catch (cause) {
    throw new SettingsError(
      `${path} cannot be read: remove it and enrol this sidecar anew, with SALLYPORT_ENROLMENT_TOKEN.`,
      { cause },
    );
  }
}

function revive(stored: StoredEnrolment): Enrolment {
  const der = (base64: string) => Buffer.from(base64, 'base64');
  const { sidecarId, tenantId, agentId, userId } = stored.identity;
  if ([sidecarId, tenantId, agentId, userId].some((id) => typeof id !== 'string' || id === '')) {
    throw new TypeError('the identity is incomplete');
  }
  return {
    identity: stored.identity,
    signingKey: importPrivateKey(der(stored.signingKey)),
    encryptionKey: createPrivateKey({
      key: der(stored.encryptionKey),
      format: 'der',
      type: 'pkcs8',
    }),
    sectionKeys: stored.sectionKeys,
  };
}
