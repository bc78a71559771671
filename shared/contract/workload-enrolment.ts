import { z } from 'zod';
import { name, text } from './base/fields.ts';
import { operation } from './base/operation.ts';
import { line } from './base/schemas.ts';
import { enrolledJwk, enrolledSidecar, enrolSidecar } from './sidecars.ts';

/**
 * `typ` of the JWS with which a sidecar proves, at its enrolment with a workload token, that it has
 * the private half of its signing key.
 */
export const enrolmentProofType = 'sallyport-enrolment+jwt';

/** The payload of the proof. It names the token, so that the proof is not valid for another enrolment. */
export interface EnrolmentProof {
  readonly aud: string;
  /** SHA-256 of the token, hex. */
  readonly token_sha256: string;
  /** The `x` of the encryption key. */
  readonly encryption_x: string;
}

const { signing_jwk, encryption_jwk, version } = enrolSidecar.bodyExample as Record<
  string,
  unknown
>;

export const enrolWorkload = operation({
  tag: 'Sidecars',
  id: 'enrolWorkload',
  method: 'POST',
  path: '/v1/sidecars/enrol-workload',
  summary: 'Enrol a sidecar’s public keys with a Kubernetes service account token',
  description:
    'The token must be bound to a pod, and an enrolment rule must name its service account. A pod has one sidecar: another key of the same pod replaces the former sidecar, and the same keys return the existing one.',
  auth: 'none',
  budget: 'address',
  body: z.strictObject({
    /** The projected service account token. */
    token: name(16_384),
    /** The tenant of the enrolment rule. Default: the tenant of the installation. */
    tenant_id: line(200).optional(),
    /** Ed25519. */
    signing_jwk: enrolledJwk('Ed25519'),
    /** X25519. */
    encryption_jwk: enrolledJwk('X25519'),
    /** A compact JWS over the token and the encryption key, made with the signing key. */
    proof: name(4_096),
    version: text(64).optional(),
  }),
  bodyExample: {
    token: 'eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIn0.c2ln',
    signing_jwk,
    encryption_jwk,
    proof: 'eyJhbGciOiJFZERTQSJ9.e30.c2ln',
    version,
  },
  success: enrolledSidecar,
  errors: [
    'args.schema_invalid',
    'workload.token_malformed',
    'workload.issuer_unknown',
    'workload.algorithm_refused',
    'workload.key_unknown',
    'workload.signature_invalid',
    'workload.token_expired',
    'workload.token_not_yet_valid',
    'workload.claims_invalid',
    'workload.pod_unbound',
    'workload.proof_invalid',
    'workload.rule_missing',
    'workload.audience_mismatch',
    'workload.token_rejected',
    'workload.pod_revoked',
    'workload.keys_unavailable',
    'workload.review_unavailable',
    'sidecar.grant_exceeds_own',
    'agent.not_found',
    'agent.disabled',
  ],
});
