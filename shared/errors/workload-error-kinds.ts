import { type ErrorKind, outage, refusal } from './error-kind.ts';

/** The reason codes of workload identity; part of `errorKinds`. */
export const workloadErrorKinds = {
  'enrolment_rule.not_found': refusal(404, 'The enrolment rule does not exist.'),
  'enrolment_rule.overlap': refusal(409, 'Another enrolment rule names the same service account.'),
  'enrolment_rule.issuer_unknown': refusal(
    400,
    'The issuer is not configured; the operator adds it to SALLYPORT_OIDC_ISSUERS.',
  ),
  'workload.token_malformed': refusal(
    401,
    'The workload token is not a signed JWT; mount a projected service account token.',
  ),
  'workload.issuer_unknown': refusal(
    401,
    "The workload token's issuer is not configured; the operator adds it to SALLYPORT_OIDC_ISSUERS.",
  ),
  'workload.algorithm_refused': refusal(
    401,
    'The workload token is not signed with RS256 or ES256.',
  ),
  'workload.key_unknown': refusal(
    401,
    "The issuer's keys do not contain the key that the workload token names; check that the issuer is this cluster.",
  ),
  'workload.signature_invalid': refusal(401, "The workload token's signature is not valid."),
  'workload.token_expired': refusal(
    401,
    'The workload token has expired; read the token file again, and compare the clocks.',
  ),
  'workload.token_not_yet_valid': refusal(
    401,
    'The workload token is not valid yet; compare the clocks of the cluster and the control plane.',
  ),
  'workload.audience_mismatch': refusal(
    401,
    'The workload token has another audience than its enrolment rule; set the audience of the projected volume.',
  ),
  'workload.claims_invalid': refusal(
    401,
    'The claims of the workload token are not those of a Kubernetes service account token.',
  ),
  'workload.pod_unbound': refusal(
    401,
    'The workload token is not bound to a pod; mount a projected service account token.',
  ),
  'workload.proof_invalid': refusal(
    401,
    'The proof is not a signature of the signing key over this token and encryption key.',
  ),
  'workload.rule_missing': refusal(
    403,
    'No enrolment rule names this service account; an owner or admin writes one with PUT /v1/sidecars/enrolment-rules/{name}.',
  ),
  'workload.pod_revoked': refusal(
    403,
    'An operator revoked the sidecar of this pod; delete the pod to enrol another one.',
  ),
  'workload.token_rejected': refusal(
    401,
    'The Kubernetes API server rejected the workload token: the pod or its service account was deleted.',
  ),
  'workload.keys_unavailable': outage(
    503,
    "The issuer's keys cannot be fetched at the moment; retry. The log of the control plane states the cause.",
  ),
  'workload.review_unavailable': outage(
    503,
    'The Kubernetes API server cannot review the workload token at the moment; retry. The log of the control plane states the cause.',
  ),
  // Failures on the sidecar's side, before it sends the token to the control plane.
  'workload.token_unreadable': outage(
    503,
    'The file of the workload token cannot be read (SALLYPORT_WORKLOAD_TOKEN_FILE).',
  ),
} as const satisfies Record<string, ErrorKind>;
