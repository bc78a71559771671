import { hash } from 'node:crypto';
import { sidecarTokenAudience } from '../../shared/contract/sidecar-token.ts';
import {
  type EnrolmentProof,
  enrolmentProofType,
} from '../../shared/contract/workload-enrolment.ts';
import { verifyJws } from '../../shared/crypto/jws.ts';
import { jwkThumbprint, verificationKeys } from '../../shared/crypto/signing-key.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { sidecarSection } from '../../shared/sync/sections.ts';
import { type ChangeNotes, commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import { unverified } from '../platform/signed-store/verified.ts';
import type { EnrolmentRule, Sidecar } from '../platform/store/generated/client.ts';
import { lockFor, type Transaction } from '../platform/store/transaction.ts';
import { assertMayGrant } from '../sidecars/assert-may-grant.ts';
import {
  type EnrolledKeys,
  type EnrolledSidecar,
  enrolledAs,
  insertSidecar,
  pinnedKeys,
  readKeys,
  type SentKeys,
} from '../sidecars/enrol-sidecar.ts';
import { assertAgent } from '../sidecars/enrolment-token.ts';
import { retireSidecar } from '../sidecars/retire-sidecar.ts';
import { currentRule } from './current-rule.ts';
import { reviewToken } from './review-token.ts';
import type { VerifyToken, Workload } from './verify-token.ts';

interface WorkloadEnrolment extends SentKeys {
  readonly token: string;
  /** The proof that the caller has the private half of the signing key. */
  readonly proof: string;
  /** Default: the tenant of the installation. */
  readonly tenantId?: string | undefined;
}

/**
 * Enrols the sidecar of a pod with the pod's service account token. The enrolment rule of the
 * service account determines agent, user and environment. A pod has one sidecar: a repeat with the
 * same keys returns this sidecar, and an enrolment with other keys replaces it.
 */
export async function enrolWorkload(
  services: Services,
  verifyToken: VerifyToken,
  enrolment: WorkloadEnrolment,
): Promise<EnrolledSidecar> {
  const keys = readKeys(enrolment);
  const workload = await verifyToken(enrolment.token);
  assertProof(enrolment, keys);
  const tenantId = enrolment.tenantId ?? services.config.tenantId;
  // Reads the rule before the transaction, because the review must not hold a connection.
  const { audience } = await services.db.$transaction((tx) =>
    currentRule(services, tx, tenantId, workload),
  );
  assertAudience(workload, audience);
  await reviewToken(services, workload, { token: enrolment.token, audience });
  const pinned = await pinnedKeys(services, tenantId);
  const { result } = await commitChange(services, tenantId, async (tx, notes) => {
    const rule = await currentRule(services, tx, tenantId, workload);
    assertAudience(workload, rule.audience);
    await assertAgent(services, tx, tenantId, rule.agentId);
    // Checks the rights of the rule's writer again: the rule's user may have become an owner since
    // an admin wrote the rule.
    const writer = { tenantId, role: rule.writerRole, agentId: undefined };
    await assertMayGrant(services, tx, writer, { ...rule });
    const { version } = enrolment;
    return enrolPod(services, { tx, notes, rule, workload }, { ...keys, version });
  });
  return enrolledAs(result, pinned);
}

interface Enrolling {
  readonly tx: Transaction;
  readonly notes: ChangeNotes;
  readonly rule: Verified<EnrolmentRule>;
  readonly workload: Workload;
}

async function enrolPod(
  services: Services,
  { tx, notes, rule, workload }: Enrolling,
  { version, ...keys }: EnrolledKeys & { readonly version: string | undefined },
): Promise<Verified<Sidecar>> {
  const { tenantId } = rule;
  const { podName, podUid, namespace, serviceAccount } = workload;
  const issuer = workload.issuer.issuer;
  await lockFor(tx, tenantId, `pod ${podUid}`);
  const sidecars = notes.rows('sidecar');
  const earlier = await sidecars.findMany({ where: { tenantId, issuer, podUid } });
  if (earlier.some(({ revokedFor }) => revokedFor === 'operator')) {
    throw new GatewayError('workload.pod_revoked');
  }
  const live = earlier.find(({ revokedAt }) => revokedAt === null);
  if (live !== undefined && isRepeated(live, rule, keys)) return live;
  const at = new Date(services.clock.now());
  if (live !== undefined) {
    // Revokes the former sidecar first, because the database allows only one live sidecar per pod.
    await retireSidecar(notes, unverified(live), { at, reason: 'replaced', by: `pod:${podUid}` });
  }
  const { agentId, userId, environment } = rule;
  const pod = { ruleName: rule.name, issuer, namespace, serviceAccount, podName, podUid };
  const authority = { tenantId, agentId, userId, environment };
  const created = await insertSidecar(services, notes, { ...authority, ...pod, ...keys });
  notes.sections(sidecarSection(created.id));
  await notes.event({
    type: 'sidecar.enrolled',
    chainId: `sidecar:${created.id}`,
    agentId,
    userId,
    data: {
      encryption_kid: keys.encryptionJwk.kid,
      environment,
      issuer,
      namespace,
      pod_name: podName,
      pod_uid: podUid,
      replaces: live?.id,
      rule: rule.name,
      rule_by: rule.writtenBy,
      service_account: serviceAccount,
      sidecar_id: created.id,
      signing_kid: keys.signingJwk.kid,
      version,
    },
  });
  return created;
}

/** True for a repeated request, and for a sidecar that restarted with its keys. */
function isRepeated(
  live: Verified<Sidecar>,
  rule: Verified<EnrolmentRule>,
  { signingJwk, encryptionJwk }: EnrolledKeys,
): boolean {
  return (
    live.ruleName === rule.name &&
    live.agentId === rule.agentId &&
    live.userId === rule.userId &&
    live.environment === rule.environment &&
    thumbprintOf(live.signingJwk) === signingJwk.kid &&
    thumbprintOf(live.encryptionJwk) === encryptionJwk.kid
  );
}

function thumbprintOf(stored: unknown): string {
  return jwkThumbprint(stored as Parameters<typeof jwkThumbprint>[0]);
}

/**
 * Throws unless this is the token's only audience, because other recipients of the token could
 * enrol with it, too.
 */
function assertAudience({ audiences }: Workload, audience: string): void {
  if (audiences.length === 1 && audiences[0] === audience) return;
  throw new GatewayError('workload.audience_mismatch', {
    message: `The workload token must have ${JSON.stringify(audience)} as its only audience; set it in the projected volume.`,
  });
}

function assertProof({ token, proof, encryptionJwk }: WorkloadEnrolment, keys: EnrolledKeys): void {
  const verified = verifyJws(proof, enrolmentProofType, verificationKeys([keys.signingJwk]));
  if (!verified.ok) throw new GatewayError('workload.proof_invalid');
  const { aud, token_sha256, encryption_x } = verified.payload as Partial<
    Record<keyof EnrolmentProof, unknown>
  >;
  const isProven =
    aud === sidecarTokenAudience &&
    token_sha256 === hash('sha256', token, 'hex') &&
    encryption_x === encryptionJwk.x;
  if (!isProven) throw new GatewayError('workload.proof_invalid');
}
