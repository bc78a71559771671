import { createPrivateKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import fs from 'node:fs';
import { join } from 'node:path';
import { SettingsError } from '../../shared/base/settings.ts';
import { createClient } from '../../shared/contract/base/client.ts';
import { enrolSidecar } from '../../shared/contract/sidecars.ts';
import {
  exportPrivateKey,
  generateSigningKey,
  importPrivateKey,
  type PublicJwk,
  type SigningKey,
} from '../../shared/crypto/signing-key.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { Identity } from '../base/identity.ts';

/** The result of enrolment: the identity, the sidecar's own keys, and the keys that it pins. */
export interface Enrolment {
  readonly identity: Identity;
  readonly signingKey: SigningKey;
  /** X25519; credentials are encrypted to it. */
  readonly encryptionKey: KeyObject;
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

interface EnrolmentOptions {
  readonly dataDir: string;
  readonly controlPlaneUrl: string;
  readonly token: string | undefined;
  readonly version: string;
}

/**
 * Loads the stored enrolment, or enrols with the token. Private keys never leave the data
 * directory.
 */
export async function enrol(options: EnrolmentOptions): Promise<Enrolment> {
  const path = enrolmentFile(options.dataDir);
  if (fs.existsSync(path)) return read(path);
  if (options.token === undefined) {
    throw new SettingsError(
      'This sidecar is not enrolled: set SALLYPORT_ENROLMENT_TOKEN to a token from POST /v1/sidecars/tokens.',
    );
  }
  const stored = await enrolAnew(options, options.token);
  fs.mkdirSync(options.dataDir, { recursive: true, mode: 0o700 });
  replaceFile(path, stored);
  return revive(stored);
}

/** The identity of the data directory's sidecar; undefined if the sidecar has not enrolled. */
export function enrolledIdentity(dataDir: string): Identity | undefined {
  const path = enrolmentFile(dataDir);
  return fs.existsSync(path) ? read(path).identity : undefined;
}

/** Stores this key as the only section key to trust from the next start on. */
export function pinSectionKey(dataDir: string, key: PublicJwk): void {
  const path = enrolmentFile(dataDir);
  const stored = JSON.parse(fs.readFileSync(path, 'utf8')) as StoredEnrolment;
  replaceFile(path, { ...stored, sectionKeys: [key] });
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

async function enrolAnew(
  { controlPlaneUrl, version }: EnrolmentOptions,
  token: string,
): Promise<StoredEnrolment> {
  const signingKey = generateSigningKey();
  const encryption = generateKeyPairSync('x25519');
  const { kty = '', crv = '', x = '' } = encryption.publicKey.export({ format: 'jwk' });
  const client = createClient({ baseUrl: `${controlPlaneUrl}/api`, authorization: () => '' });
  const { publicJwk } = signingKey;
  const body = {
    token,
    signing_jwk: { kty: 'OKP' as const, crv: publicJwk.crv, x: publicJwk.x },
    encryption_jwk: { kty: kty as 'OKP', crv, x },
    version,
  };
  const enrolled = await client.call(enrolSidecar, { body }).catch((error: unknown) => {
    throw explained(error, controlPlaneUrl);
  });
  return {
    identity: {
      sidecarId: enrolled.sidecar_id,
      tenantId: enrolled.tenant_id,
      agentId: enrolled.agent_id,
      userId: enrolled.user_id,
      environment: enrolled.environment,
    },
    signingKey: exportPrivateKey(signingKey).toString('base64'),
    encryptionKey: encryption.privateKey
      .export({ format: 'der', type: 'pkcs8' })
      .toString('base64'),
    sectionKeys: enrolled.section_keys as readonly PublicJwk[],
  };
}

/** Explains the failures that an operator can repair. */
function explained(error: unknown, controlPlaneUrl: string): unknown {
  if (!(error instanceof GatewayError)) return error;
  if (error.code === 'sidecar.token_invalid') {
    return new SettingsError(
      'SALLYPORT_ENROLMENT_TOKEN is not valid: it is mistyped, used or expired. Get a new one from POST /v1/sidecars/tokens.',
      { cause: error },
    );
  }
  if (error.code === 'agent.disabled') {
    return new SettingsError(
      'SALLYPORT_ENROLMENT_TOKEN is for an agent that is disabled: enable it with PATCH /v1/agents/{id} and {"disabled": false}, or get a token for another agent.',
      { cause: error },
    );
  }
  if (error.kind.isUnanswered !== true) return error;
  return new SettingsError(
    `The control plane does not answer at ${controlPlaneUrl}: start it first, or correct SALLYPORT_CONTROL_PLANE_URL.`,
    { cause: error },
  );
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
