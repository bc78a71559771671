import { admissionErrorKinds } from './admission-error-kinds.ts';
import {
  type ErrorKind,
  failure,
  fault,
  outage,
  refusal,
  unproved,
  unreadable,
  unusable,
} from './error-kind.ts';
import { sidecarErrorKinds } from './sidecar-error-kinds.ts';
import { workloadErrorKinds } from './workload-error-kinds.ts';

/**
 * Every reason code of Sallyport itself. Policies may set their own codes on a verdict; those are
 * data and never appear here.
 */
export const errorKinds = {
  // Access
  'auth.missing_key': refusal(401, 'An API key is required: send Authorization: Bearer apk_…'),
  'auth.invalid_key': refusal(401, 'The API key is not valid.'),
  'auth.insufficient_permission': refusal(
    403,
    'The API key lacks the permission this operation needs.',
    { challenge: 'insufficient_scope' },
  ),
  'auth.gateway_scope_required': refusal(403, 'This operation needs a gateway-scope API key.', {
    challenge: 'insufficient_scope',
  }),
  'auth.sidecar_required': refusal(401, 'This operation is for enrolled sidecars.'),
  'tenant.mismatch': refusal(403, "The request names a different tenant from the API key's."),
  rate_limited: {
    status: 429,
    retryable: true,
    ownStatus: true,
    level: 'info',
    text: 'The request budget is exhausted; retry after Retry-After seconds.',
  },
  'rate_limited.denials': {
    status: 429,
    retryable: true,
    ownStatus: true,
    // Debug level, because the sidecar logs the number of denials once a second.
    level: 'debug',
    text: 'Too many calls from this agent were denied; retry after Retry-After seconds.',
  },
  'plan.feature_required': refusal(402, 'The plan does not include this feature.'),
  'plan.cap_reached': refusal(402, "The plan's limit for this resource is reached."),

  // Input
  'request.invalid': fault(400, 'The request is not valid.'),
  'request.header_repeated': fault(400, 'A header that must appear only once is repeated.'),
  'request.body_too_large': fault(413, 'The body is larger than the limit.'),
  'request.not_found': fault(
    404,
    'The path does not exist. Paths begin with /api/v1/; /api/docs lists them.',
  ),
  'request.method_not_allowed': fault(405, 'This path does not support the method.'),
  'args.schema_invalid': unreadable(400, 'The body does not match the schema.'),
  'args.ambiguous': fault(400, 'An argument appears more than once.', { rpc: 'invalid_params' }),
  'args.too_deep': unreadable(400, 'The body is nested deeper than 64 levels.'),
  'args.too_many_members': unreadable(400, 'The body contains too many members or values.'),
  'args.name_too_long': unreadable(400, 'A name in the body is too long.'),
  'args.too_large': unreadable(413, 'The body is larger than the limit.'),
  'args.encoding_invalid': unreadable(
    400,
    'The body is not valid UTF-8, or its content encoding is not supported.',
  ),
  'args.number_unsafe': unreadable(
    400,
    'A number cannot be represented exactly; send it as a string.',
  ),
  'args.duplicate_key': unreadable(400, 'An object contains the same key twice.'),
  'args.amount_exceeds_limit': fault(403, 'The amount exceeds what the passport allows.'),
  'args.resource_out_of_scope': fault(403, 'The passport does not allow this resource.'),
  'args.external_recipient': fault(403, 'A recipient is outside the allowed domains.'),
  'args.resource_ambiguous': fault(
    400,
    'An argument that fills the resource contains a separator; send a value without "/", ":" and "\\".',
  ),
  'args.resource_mismatch': fault(
    403,
    'The resource does not match the one that the arguments identify.',
  ),
  'args.digest_mismatch': fault(
    403,
    'The arguments differ from those that the passport was issued for.',
  ),
  'args.idempotency_in_flight': failure(
    503,
    'The first request with this idempotency key has not finished; try again.',
  ),
  'args.idempotency_conflict': fault(
    400,
    'The idempotency key was already used with a different payload.',
  ),

  // Passports
  'passport.missing': unproved(401, 'A passport is required.'),
  'passport.malformed': unproved(
    401,
    'The passport is not a compact JWS with the expected header and claims.',
  ),
  'passport.signature_invalid': unproved(
    401,
    "The passport's signature does not verify with any known key.",
  ),
  'passport.expired': unproved(401, 'The passport has expired.'),
  'passport.not_yet_valid': unproved(401, 'The passport is not valid yet.'),
  'passport.audience_mismatch': unproved(401, 'The passport was issued for a different audience.'),
  'passport.revoked': unusable(403, 'The passport was revoked.'),
  'passport.replay_detected': unusable(403, 'The passport was already used.'),
  'passport.tenant_mismatch': unusable(403, 'The passport was issued by a different tenant.'),
  'passport.agent_mismatch': unusable(403, 'The passport was issued to a different agent.'),
  'passport.user_mismatch': unusable(403, 'The passport was issued for a different user.'),
  'passport.tool_not_allowed': refusal(403, 'The passport does not cover this tool.'),
  'passport.resource_not_allowed': refusal(403, 'The passport does not cover this resource.'),
  'passport.not_renewable': refusal(403, 'This passport cannot be renewed; request a new one.'),
  'passport.ttl_invalid': refusal(400, 'ttl_seconds must be from 5 to 3600.'),
  'passport.claim_unavailable': outage(
    503,
    'Single use of the passport cannot be verified at the moment; retry.',
    {
      passport: 'unusable',
      countsAs: 'outage',
    },
  ),
  'passport.lease_exhausted': outage(
    503,
    "The sidecar's lease of passports is exhausted; it is requesting a new one. Retry.",
  ),
  'passport.sign_failed': outage(500, 'The passport could not be signed.'),
  'passport.persist_failed': outage(500, 'The passport could not be stored.'),

  // Tools and agents
  'tool.not_found': refusal(404, 'The tool does not exist.'),
  'tool.unregistered': refusal(403, 'The tool is not registered.'),
  'tool.manifest_changed': refusal(403, "The tool's manifest changed since it was approved."),
  'tool.reapproval_required': refusal(403, 'The tool needs a new approval.'),
  'tool.pending_approval': refusal(403, 'The tool has not been approved yet.'),
  'tool.rejected': refusal(403, 'The tool was rejected.'),
  'agent.not_found': refusal(404, 'The agent does not exist.'),
  'agent.disabled': refusal(403, 'The agent is disabled; all its calls are refused.'),
  'agent.mismatch': refusal(403, 'The API key is bound to another agent.'),
  'agent.disabled_by_higher_role': refusal(
    403,
    'The agent was disabled by a user with a higher role; only that role or a higher one can enable it.',
  ),
  'agent.widening_refused': refusal(
    403,
    'The agent would gain capabilities that reach a credential; this needs the permission sidecar.enrol.',
  ),
  'service_account.exists': refusal(409, 'The agent already has a service account with this name.'),
  'agent.load_failed': outage(500, 'The agent could not be loaded.'),
  'user.not_found': refusal(404, 'The user does not exist.'),

  // Policies
  'policy.not_found': refusal(404, 'The policy does not exist.'),
  'policy.pack_not_found': refusal(
    404,
    'The policy pack does not exist; GET /v1/policies/packs lists the packs.',
  ),
  'policy.invalid': refusal(400, 'The policy is not valid.'),
  'policy.lifecycle_invalid': refusal(
    409,
    "The policy's lifecycle state does not allow this change.",
  ),
  'policy.changed': refusal(
    409,
    'The policy changed since you read it. Read it again and repeat the change.',
  ),
  'policy.no_match': refusal(403, 'No policy allows this action.', { mayBeUnbound: true }),
  'policy.update_required': outage(
    503,
    "The sidecar's policies are older than the maximum staleness; calls are refused until it synchronises.",
  ),
  'policy.load_failed': outage(500, 'The policies could not be loaded.'),
  'usage.unknown': outage(
    503,
    "The agent's usage counts are not available at the moment, so its budget cannot be checked.",
  ),

  // Approvals
  'approval.not_found': refusal(404, 'The approval does not exist.'),
  'approval.pending': refusal(403, 'The action is waiting for a human decision.'),
  'approval.denied': refusal(403, 'A human denied the action.'),
  'approval.expired': refusal(403, 'The approval expired before anybody decided.', {
    grant: 'over',
  }),
  'approval.invalid': refusal(403, 'The approval does not cover this action.', { grant: 'unfit' }),
  'approval.satisfied': refusal(200, 'A human approved the action.'),
  'approval.grant_refused': refusal(
    403,
    'A standing grant is not allowed here, or exceeds the terms of the rule.',
  ),
  'approval.grant_revoked': refusal(403, 'The grant was revoked.', { grant: 'over' }),
  'approval.used': refusal(403, 'The approval was already used.', { grant: 'over' }),
  'approval.transition_invalid': refusal(
    409,
    "The approval's state does not allow this transition.",
  ),
  'approval.precondition_unmet': refusal(409, 'The approval has an unmet precondition.'),
  'approval.self_decision': refusal(403, 'You cannot decide on an approval that you requested.'),
  'approval.role_insufficient': refusal(403, 'This approval requires a higher role.'),
  'approval.already_voted': refusal(409, 'You already decided on this approval.'),
  'approval.action_denied': refusal(
    403,
    "No approval was opened: the control plane's policies deny the action.",
  ),
  'approval.too_many_open': refusal(403, 'The agent has too many open approvals.', {
    isUnopened: true,
  }),
  'approval.unavailable': outage(
    503,
    'Approvals cannot be requested or used at the moment; retry.',
    {
      countsAs: 'outage',
      isUnopened: true,
    },
  ),

  // Integrations
  'integration.not_found': refusal(404, 'The integration is not installed.'),
  'delivery.not_found': refusal(404, 'The delivery does not exist.'),
  'delivery.not_dead': refusal(
    409,
    'The delivery is not dead-lettered; only dead-lettered deliveries can be replayed.',
  ),

  // Runtime
  'runtime.kill_switch': refusal(403, 'An armed kill switch blocks this action.'),
  'kill_switch.not_found': refusal(404, 'The kill switch does not exist.'),
  'kill_switch.invalid': refusal(400, 'The kill switch is not valid.'),
  'binding.not_found': refusal(404, 'The binding does not exist.'),
  'binding.overlap': refusal(409, 'Another binding already covers the same calls.'),
  'binding.invalid': refusal(400, 'The binding is not valid.'),
  'sidecar.not_found': refusal(404, 'The sidecar does not exist.'),
  'sidecar.token_invalid': refusal(401, 'The enrolment token is not valid.'),
  'sidecar.grant_exceeds_own': refusal(
    403,
    'The API key may not enrol a sidecar for this user in this environment.',
  ),
  'sidecar.revoked': refusal(401, 'The sidecar was revoked; all calls through it are refused.'),

  // Credentials and keys
  'credential.not_found': refusal(404, 'The credential does not exist.'),
  'credential.invalid': refusal(400, 'The credential is not valid.'),
  'credential.unreadable': outage(500, 'A stored secret could not be decrypted.'),
  'credential.unavailable': outage(
    503,
    'The sidecar does not have the current credential for this call; retry.',
  ),
  'credential.insecure_transport': refusal(
    403,
    'The credential for this call is sent over TLS only; use https://.',
  ),
  'credential.reflected': fault(
    502,
    'The call was performed; the response was withheld because it contained the credential.',
  ),
  'key.not_found': refusal(404, 'The API key does not exist.'),
  'key.role_exceeds_own': refusal(
    403,
    'A new API key cannot have more permissions than the key that creates it.',
  ),

  // The database
  'integrity.forged_row': {
    status: 403,
    retryable: false,
    level: 'error',
    text: 'A database row that this request depends on failed its integrity check; the request was refused.',
  },

  // Evidence
  'evidence.seal_failed': outage(500, 'The decision could not be recorded.'),
  'evidence.cursor_invalid': refusal(400, 'The cursor was not issued by this ledger.'),
  'evidence.stream_full': outage(503, 'Too many clients are streaming this ledger; retry later.'),
  'evidence.export_too_large': refusal(
    400,
    'The export exceeds the limit for one file; narrow the filters.',
  ),
  'evidence.event_invalid': refusal(400, 'The event is not valid.'),
  'evidence.checkpoint_invalid': refusal(
    400,
    'The checkpoint is not signed by a key of this tenant.',
  ),
  'evidence.rolled_back': {
    status: 409,
    retryable: true,
    level: 'error',
    text: 'The ledger lacks events that it acknowledged earlier: an older copy was restored, or the ledger was rewritten.',
  },
  'evidence.event_not_found': refusal(404, 'The event does not exist.'),
  'evidence.arguments_not_kept': refusal(404, 'The arguments of this event were not stored.'),
  'evidence.arguments_erased': refusal(410, 'The stored arguments were erased.'),
  'evidence.not_a_decision': refusal(409, 'The event is not a decision on an action.'),
  'evidence.id_conflict': refusal(409, 'A different event with this id was already recorded.'),
  'evidence.position_not_found': refusal(404, 'The ledger does not have this position yet.'),
  'evidence.size_not_found': refusal(404, 'The ledger does not have this size yet.'),
  'evidence.tile_not_found': refusal(404, 'The Merkle tree does not have this tile yet.'),
  'evidence.fork': {
    status: 500,
    retryable: false,
    level: 'error',
    text: 'The ledger contradicts an earlier signed checkpoint; nothing is signed or proved for it.',
  },

  'report.signing_unavailable': outage(503, 'Reports cannot be signed at the moment; retry.'),

  // Execution by the control plane
  'execution.not_configured': refusal(403, 'No binding configures an upstream for this tool.'),
  'execution.outcome_unknown': refusal(
    200,
    'The call was sent and its outcome is unknown; it is not sent again.',
  ),
  'execution.interrupted': outage(503, 'The control plane stopped while the call was in flight.'),

  ...sidecarErrorKinds,
  ...workloadErrorKinds,
  ...admissionErrorKinds,

  'internal.unexpected': failure(500, 'An unexpected error occurred; it was logged.'),
} as const satisfies Record<string, ErrorKind>;

export type ErrorCode = keyof typeof errorKinds;

export function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(errorKinds, code);
}

type FamilyOf<Code extends string> = Code extends `${infer Family}.${string}` ? Family : Code;
type ErrorFamily = FamilyOf<ErrorCode>;

/** The code's family: the part before the dot. */
export function errorFamily(code: ErrorCode): ErrorFamily {
  return code.replace(/\..*$/, '') as ErrorFamily;
}

/** The table entry of a reason code; undefined for a code that comes from a policy. */
export function errorKindOf(code: string): ErrorKind | undefined {
  return isErrorCode(code) ? errorKinds[code] : undefined;
}
