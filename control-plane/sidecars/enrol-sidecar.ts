import { newId } from '../../shared/base/ids.ts';
import type { PublicJwk } from '../../shared/crypto/signing-key.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { sidecarAudience } from '../../shared/passport/audience.ts';
import { sidecarSection } from '../../shared/sync/sections.ts';
import type { Environment } from '../../shared/vocabulary/action.ts';
import { type ChangeNotes, commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { EnrolmentToken, Sidecar } from '../platform/store/generated/client.ts';
import { readEncryptionKey, readSigningKey, type SentJwk } from './enrolled-keys.ts';
import { assertAgent, tokenHash } from './enrolment-token.ts';

/** Keys that a sidecar sends at its enrolment. */
export interface SentKeys {
  /** Ed25519 key that authenticates the sidecar. */
  readonly signingJwk: SentJwk;
  /** X25519 key that the sidecar's credentials are encrypted to. */
  readonly encryptionJwk: SentJwk;
  readonly version?: string | undefined;
}

interface Enrolment extends SentKeys {
  readonly token: string;
}

export interface EnrolledSidecar {
  readonly sidecarId: string;
  readonly tenantId: string;
  readonly agentId: string;
  readonly userId: string;
  readonly environment: Environment;
  readonly sectionKeys: readonly PublicJwk[];
  readonly passportKeys: readonly PublicJwk[];
  /** Audience of passports for this sidecar. */
  readonly audience: string;
}

/**
 * Enrols a sidecar's keys. The token determines the agent and user; the response contains the keys
 * that the sidecar must pin.
 */
export async function enrolSidecar(
  services: Services,
  enrolment: Enrolment,
): Promise<EnrolledSidecar> {
  const enrolledKeys = readKeys(enrolment);
  const { signingJwk, encryptionJwk } = enrolledKeys;
  const hash = tokenHash(enrolment.token);
  // The token is verified before any write in the tenant that the token names.
  const token = await signedRows(services, 'enrolment_token').findUnique({ where: { hash } });
  if (token === null) throw new GatewayError('sidecar.token_invalid');
  const { tenantId } = token;
  // The keys are read before the transaction, because embedded mode has one connection.
  const keys = await pinnedKeys(services, tenantId);
  const { result: sidecar } = await commitChange(services, tenantId, async (tx, notes) => {
    await useToken(notes, token, services.clock.now());
    await assertAgent(services, tx, tenantId, token.agentId);
    const created = await insertSidecar(services, notes, {
      tenantId,
      agentId: token.agentId,
      userId: token.userId,
      environment: token.environment,
      ...enrolledKeys,
    });
    notes.sections(sidecarSection(created.id));
    await notes.event({
      type: 'sidecar.enrolled',
      chainId: `sidecar:${created.id}`,
      agentId: created.agentId,
      userId: created.userId,
      data: {
        encryption_kid: encryptionJwk.kid,
        environment: created.environment,
        sidecar_id: created.id,
        signing_kid: signingJwk.kid,
        token_by: token.createdBy,
        version: enrolment.version,
      },
    });
    return created;
  });
  return enrolledAs(sidecar, keys);
}

/** Parses the public keys of an enrolment. */
export function readKeys({ signingJwk, encryptionJwk }: SentKeys): EnrolledKeys {
  return {
    signingJwk: readSigningKey('signing_jwk', signingJwk),
    encryptionJwk: readEncryptionKey('encryption_jwk', encryptionJwk),
  };
}

export interface EnrolledKeys {
  readonly signingJwk: PublicJwk;
  readonly encryptionJwk: PublicJwk;
}

/** The enrolment of a stored sidecar. */
export function enrolledAs(
  { id, tenantId, agentId, userId, environment }: Verified<Sidecar>,
  keys: PinnedKeys,
): EnrolledSidecar {
  return {
    sidecarId: id,
    tenantId,
    agentId,
    userId,
    environment: environment as Environment,
    audience: sidecarAudience(id),
    ...keys,
  };
}

/** Consumes one use of the token in a single statement, if the token is valid and has uses left. */
async function useToken(
  notes: ChangeNotes,
  { hash }: Verified<EnrolmentToken>,
  nowMs: number,
): Promise<void> {
  const tokens = notes.rows('enrolment_token');
  const valid = { hash, usesLeft: { gt: 0 }, expiresAt: { gt: new Date(nowMs) } };
  if (!(await tokens.decrement(valid, 'usesLeft'))) {
    throw new GatewayError('sidecar.token_invalid');
  }
  await tokens.signChange({ where: { hash } }, ({ usesLeft }) => ({ usesLeft: usesLeft + 1 }));
}

/** The body of the response to an enrolment. */
export function enrolledBody(enrolled: EnrolledSidecar) {
  return {
    sidecar_id: enrolled.sidecarId,
    tenant_id: enrolled.tenantId,
    agent_id: enrolled.agentId,
    user_id: enrolled.userId,
    environment: enrolled.environment,
    section_keys: [...enrolled.sectionKeys],
    passport_keys: [...enrolled.passportKeys],
    audience: enrolled.audience,
  };
}

type NewSidecar = Pick<Sidecar, 'tenantId' | 'agentId' | 'userId' | 'environment'> &
  Partial<
    Pick<Sidecar, 'ruleName' | 'issuer' | 'namespace' | 'serviceAccount' | 'podName' | 'podUid'>
  > &
  EnrolledKeys;

/** Stores a new sidecar, signed. */
export async function insertSidecar(
  { clock }: Pick<Services, 'clock'>,
  notes: ChangeNotes,
  { signingJwk, encryptionJwk, ...row }: NewSidecar,
): Promise<Verified<Sidecar>> {
  const nowMs = clock.now();
  return notes.rows('sidecar').create({
    ...row,
    id: newId('sc', nowMs),
    signingJwk: { ...signingJwk, use: 'sig', alg: 'EdDSA' },
    encryptionJwk: { ...encryptionJwk, use: 'enc' },
    enrolledAt: new Date(nowMs),
  });
}

type PinnedKeys = Pick<EnrolledSidecar, 'sectionKeys' | 'passportKeys'>;

/** The keys that a sidecar pins at its enrolment. */
export async function pinnedKeys(
  { signingKeys }: Pick<Services, 'signingKeys'>,
  tenantId: string,
): Promise<PinnedKeys> {
  const { publicJwk } = await signingKeys.active(tenantId, 'sync');
  await signingKeys.active(tenantId, 'passport');
  return {
    // Retired keys are not pinned, because a key may have been retired after a leak.
    sectionKeys: [publicJwk],
    passportKeys: await signingKeys.publicKeys(tenantId, 'passport'),
  };
}
