import { newId } from '../../shared/base/ids.ts';
import type { PublicJwk } from '../../shared/crypto/signing-key.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { sidecarAudience } from '../../shared/passport/audience.ts';
import { sidecarSection } from '../../shared/sync/sections.ts';
import type { Environment } from '../../shared/vocabulary/action.ts';
import { type ChangeNotes, commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import type { EnrolmentToken, Sidecar } from '../platform/store/generated/client.ts';
import type { Transaction } from '../platform/store/transaction.ts';
import { readEncryptionKey, readSigningKey, type SentJwk } from './enrolled-keys.ts';
import { assertAgent, tokenHash } from './enrolment-token.ts';

interface Enrolment {
  readonly token: string;
  /** Ed25519 key that authenticates the sidecar. */
  readonly signingJwk: SentJwk;
  /** X25519 key that the sidecar's credentials are encrypted to. */
  readonly encryptionJwk: SentJwk;
  readonly version?: string | undefined;
}

interface EnrolledSidecar {
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
  const signingJwk = readSigningKey('signing_jwk', enrolment.signingJwk);
  const encryptionJwk = readEncryptionKey('encryption_jwk', enrolment.encryptionJwk);
  const hash = tokenHash(enrolment.token);
  const token = await services.db.enrolmentToken.findUnique({ where: { hash } });
  if (token === null) throw new GatewayError('sidecar.token_invalid');
  // Verified before any write in the tenant that it names.
  services.guard.assert('enrolment_token', token);
  const { tenantId } = token;
  // Before the transaction, because embedded mode has one connection.
  const keys = await pinnedKeys(services, tenantId);
  const { result: sidecar } = await commitChange(services, tenantId, async (tx, notes) => {
    await useToken(tx, notes, token, services.clock.now());
    await assertAgent(services, tx, tenantId, token.agentId);
    const inserted = await insert(services, tx, { token, signingJwk, encryptionJwk });
    const created = await notes.signed('sidecar', inserted);
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
  return {
    sidecarId: sidecar.id,
    tenantId,
    agentId: sidecar.agentId,
    userId: sidecar.userId,
    environment: sidecar.environment as Environment,
    audience: sidecarAudience(sidecar.id),
    ...keys,
  };
}

/** Consumes one use of the token, if it is valid and has one left; one statement decides. */
async function useToken(
  tx: Transaction,
  notes: ChangeNotes,
  { hash }: EnrolmentToken,
  nowMs: number,
): Promise<void> {
  const { count } = await tx.enrolmentToken.updateMany({
    where: { hash, usesLeft: { gt: 0 }, expiresAt: { gt: new Date(nowMs) } },
    data: { usesLeft: { decrement: 1 } },
  });
  if (count === 0) throw new GatewayError('sidecar.token_invalid');
  const used = await tx.enrolmentToken.findUniqueOrThrow({ where: { hash } });
  // This transaction holds the row, so its earlier values differ by this use only.
  notes.assertSigned('enrolment_token', { ...used, usesLeft: used.usesLeft + 1 });
  await notes.signed('enrolment_token', used);
}

async function insert(
  { clock }: Services,
  tx: Transaction,
  {
    token,
    signingJwk,
    encryptionJwk,
  }: {
    readonly token: EnrolmentToken;
    readonly signingJwk: PublicJwk;
    readonly encryptionJwk: PublicJwk;
  },
): Promise<Sidecar> {
  const nowMs = clock.now();
  return tx.sidecar.create({
    data: {
      id: newId('sc', nowMs),
      tenantId: token.tenantId,
      agentId: token.agentId,
      userId: token.userId,
      environment: token.environment,
      signingJwk: { ...signingJwk, use: 'sig', alg: 'EdDSA' },
      encryptionJwk: { ...encryptionJwk, use: 'enc' },
      enrolledAt: new Date(nowMs),
    },
  });
}

async function pinnedKeys({ signingKeys }: Services, tenantId: string) {
  const { publicJwk } = await signingKeys.active(tenantId, 'sync');
  await signingKeys.active(tenantId, 'passport');
  return {
    // Retired keys are not pinned, because one may be retired after a leak.
    sectionKeys: [publicJwk],
    passportKeys: await signingKeys.publicKeys(tenantId, 'passport'),
  };
}
