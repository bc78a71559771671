import {
  type ErrorKind,
  failure,
  fault,
  outage,
  refusal,
  unproved,
  unreadable,
  unusable,
  upstream,
} from './error-kind.ts';

/**
 * Every reason code that Sallyport itself can give, in one place. Policies may stamp
 * codes of their own on a verdict; those are data and never appear here.
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
  'tenant.mismatch': refusal(403, 'The request names another tenant than the API key.'),
  rate_limited: {
    status: 429,
    retryable: true,
    ownStatus: true,
    level: 'info',
    text: 'The request budget is used up; try again after Retry-After seconds.',
  },
  'rate_limited.denials': {
    status: 429,
    retryable: true,
    ownStatus: true,
    // The sidecar logs the counts once a second.
    level: 'debug',
    text: 'Too many calls of this agent were denied; try again after Retry-After seconds.',
  },
  'plan.feature_required': refusal(402, 'The plan does not include this feature.'),
  'plan.cap_reached': refusal(402, 'The plan allows no more of these.'),

  // Input
  'request.invalid': fault(400, 'The request is not valid.'),
  'request.header_repeated': fault(400, 'A header that may be given once is repeated.'),
  'request.body_too_large': fault(413, 'The body is larger than the limit.'),
  'request.not_found': fault(404, 'No such path. Paths begin with /api/v1/; /api/docs lists them.'),
  'request.method_not_allowed': fault(405, 'This path does not answer that method.'),
  'args.schema_invalid': unreadable(400, 'The body does not match the schema.'),
  'args.ambiguous': fault(400, 'An argument is given more than once.', { rpc: 'invalid_params' }),
  'args.too_deep': unreadable(400, 'The body is nested deeper than 64 levels.'),
  'args.too_many_members': unreadable(400, 'The body holds too many members or values.'),
  'args.name_too_long': unreadable(400, 'A name in the body is too long.'),
  'args.too_large': unreadable(413, 'The body is larger than the limit.'),
  'args.encoding_invalid': unreadable(
    400,
    'The body is not valid UTF-8, or not in an accepted encoding.',
  ),
  'args.number_unsafe': unreadable(400, 'A number cannot be kept exactly.'),
  'args.duplicate_key': unreadable(400, 'An object key is given twice.'),
  'args.amount_exceeds_limit': fault(403, 'The amount exceeds what the passport allows.'),
  'args.resource_out_of_scope': fault(403, 'The resource is outside what the passport allows.'),
  'args.external_recipient': fault(403, 'A recipient is outside the allowed domains.'),
  'args.resource_ambiguous': fault(
    400,
    'An argument that is part of the resource holds a separator; send a value without "/", ":" and "\\".',
  ),
  'args.resource_mismatch': fault(403, 'The resource is not the one that the arguments lead to.'),
  'args.digest_mismatch': fault(403, 'The arguments are not the ones the passport was issued for.'),
  'args.idempotency_in_flight': failure(
    503,
    'The first request with this idempotency key has not finished; try again.',
  ),
  'args.idempotency_conflict': fault(400, 'The idempotency key was used with another payload.'),

  // Passports
  'passport.missing': unproved(401, 'A passport is required.'),
  'passport.malformed': unproved(401, 'The passport is not a compact JWS of the expected form.'),
  'passport.signature_invalid': unproved(401, 'The passport is not signed by a known key.'),
  'passport.expired': unproved(401, 'The passport has expired.'),
  'passport.not_yet_valid': unproved(401, 'The passport is not valid yet.'),
  'passport.audience_mismatch': unproved(401, 'The passport is for another audience.'),
  'passport.revoked': unusable(403, 'The passport was revoked.'),
  'passport.replay_detected': unusable(403, 'The passport was used before.'),
  'passport.tenant_mismatch': unusable(403, 'The passport belongs to another tenant.'),
  'passport.agent_mismatch': unusable(403, 'The passport belongs to another agent.'),
  'passport.user_mismatch': unusable(403, 'The passport was issued for another user.'),
  'passport.tool_not_allowed': refusal(403, 'The passport does not cover this tool.'),
  'passport.resource_not_allowed': refusal(403, 'The passport does not cover this resource.'),
  'passport.not_renewable': refusal(403, 'This passport cannot be renewed: have a new one issued.'),
  'passport.ttl_invalid': refusal(400, 'ttl_seconds must be from 5 to 3600.'),
  'passport.claim_unavailable': outage(503, 'Single use cannot be assured right now.', {
    passport: 'unusable',
    countsAs: 'outage',
  }),
  'passport.lease_exhausted': outage(
    503,
    'The sidecar has no passport left; a new lease is on its way.',
  ),
  'passport.sign_failed': outage(500, 'The passport could not be signed.'),
  'passport.persist_failed': outage(500, 'The passport could not be stored.'),

  // Tools and agents
  'tool.not_found': refusal(404, 'No such tool.'),
  'tool.unregistered': refusal(403, 'The tool is not registered.'),
  'tool.manifest_changed': refusal(403, 'The tool changed since it was approved.'),
  'tool.reapproval_required': refusal(403, 'The tool must be approved again.'),
  'tool.pending_approval': refusal(403, 'The tool has not been approved yet.'),
  'tool.rejected': refusal(403, 'The tool was rejected.'),
  'agent.not_found': refusal(404, 'No such agent.'),
  'agent.disabled': refusal(403, 'The agent is disabled: nothing is done for it.'),
  'agent.mismatch': refusal(403, 'The API key is bound to another agent.'),
  'agent.disabled_by_higher_role': refusal(
    403,
    'Somebody of a higher role disabled the agent; only that role or a higher one enables it again.',
  ),
  'agent.widening_refused': refusal(
    403,
    'The agent would gain capabilities that lead to a credential, which needs the permission sidecar.enrol.',
  ),
  'service_account.exists': refusal(409, 'The agent has a service account of this name.'),
  'agent.load_failed': outage(500, 'The agent could not be read.'),
  'user.not_found': refusal(404, 'No such user.'),

  // Policies
  'policy.not_found': refusal(404, 'No such policy.'),
  'policy.pack_not_found': refusal(404, 'No such policy pack; GET /v1/policies/packs lists them.'),
  'policy.invalid': refusal(400, 'The policy is not valid.'),
  'policy.lifecycle_invalid': refusal(409, 'The policy cannot be changed in its present state.'),
  'policy.changed': refusal(
    409,
    'The policy is not the one that was read: somebody changed it since. Read it again.',
  ),
  'policy.no_match': refusal(403, 'No policy allows this action.', { mayBeUnbound: true }),
  'policy.update_required': outage(503, 'The policies held here are too old to decide by.'),
  'policy.load_failed': outage(500, 'The policies could not be read.'),
  'usage.unknown': outage(503, 'What the agent has already done cannot be known right now.'),

  // Approvals
  'approval.not_found': refusal(404, 'No such approval.'),
  'approval.pending': refusal(403, 'The action waits for a human decision.'),
  'approval.denied': refusal(403, 'A human denied the action.'),
  'approval.expired': refusal(403, 'Nobody decided in time.', { grant: 'over' }),
  'approval.invalid': refusal(403, 'The approval does not cover this action.', { grant: 'unfit' }),
  'approval.satisfied': refusal(200, 'A human approved the action.'),
  'approval.grant_refused': refusal(
    403,
    'No standing grant may be given here, or none that reaches this far.',
  ),
  'approval.grant_revoked': refusal(403, 'The grant was taken back.', { grant: 'over' }),
  'approval.used': refusal(403, 'The approval was used before.', { grant: 'over' }),
  'approval.transition_invalid': refusal(
    409,
    'The approval cannot move that way from its present state.',
  ),
  'approval.precondition_unmet': refusal(409, 'The approval waits for something else first.'),
  'approval.self_decision': refusal(403, 'Nobody decides on their own request.'),
  'approval.role_insufficient': refusal(403, 'This approval needs a higher role.'),
  'approval.already_voted': refusal(409, 'The same person cannot decide twice.'),
  'approval.action_denied': refusal(
    403,
    'Nobody is asked: the control plane denies the action by its own policies.',
  ),
  'approval.too_many_open': refusal(403, 'The agent has too many open approvals.', {
    isUnopened: true,
  }),
  'approval.unavailable': outage(503, 'The approval cannot be requested or spent right now.', {
    countsAs: 'outage',
    isUnopened: true,
  }),

  // Integrations
  'integration.not_found': refusal(404, 'No such integration is installed.'),
  'delivery.not_found': refusal(404, 'No such delivery.'),
  'delivery.not_dead': refusal(409, 'Only a dead-lettered delivery can be replayed.'),

  // Runtime
  'runtime.kill_switch': refusal(403, 'A kill switch blocks this.'),
  'kill_switch.not_found': refusal(404, 'No such kill switch.'),
  'kill_switch.invalid': refusal(400, 'The kill switch is not valid.'),
  'binding.not_found': refusal(404, 'No such binding.'),
  'binding.overlap': refusal(409, 'Another binding already covers the same calls.'),
  'binding.invalid': refusal(400, 'The binding is not valid.'),
  'sidecar.not_found': refusal(404, 'No such sidecar.'),
  'sidecar.token_invalid': refusal(401, 'The enrolment token is not valid.'),
  'sidecar.grant_exceeds_own': refusal(
    403,
    'The key cannot have a sidecar act for this user in this environment.',
  ),
  'sidecar.revoked': refusal(401, 'The sidecar was revoked: nothing is done through it any more.'),

  // Credentials and keys
  'credential.not_found': refusal(404, 'No such credential.'),
  'credential.invalid': refusal(400, 'The credential is not valid.'),
  'credential.unreadable': outage(500, 'A stored secret could not be decrypted.'),
  'credential.unavailable': outage(503, 'The credential for this call is not at hand.'),
  'credential.insecure_transport': refusal(
    403,
    'The credential of this call is not sent over plain HTTP.',
  ),
  'credential.reflected': fault(
    502,
    'The call was performed; the response was withheld because it contained the credential.',
  ),
  'key.not_found': refusal(404, 'No such key.'),
  'key.role_exceeds_own': refusal(403, 'A key cannot be given more than its maker holds.'),

  // The database
  'integrity.forged_row': {
    status: 403,
    retryable: false,
    level: 'error',
    text: 'A stored row that this rests on was not written by this system: it is not used.',
  },

  // Evidence
  'evidence.seal_failed': outage(500, 'The decision could not be recorded.'),
  'evidence.cursor_invalid': refusal(400, 'The cursor is not one this ledger gave out.'),
  'evidence.stream_full': outage(503, 'As many follow this ledger as can; try again later.'),
  'evidence.export_too_large': refusal(400, 'There is more than one file takes: narrow it.'),
  'evidence.event_invalid': refusal(400, 'The event is not valid.'),
  'evidence.checkpoint_invalid': refusal(
    400,
    'The checkpoint is not one that a key of this tenant signed.',
  ),
  'evidence.rolled_back': {
    status: 409,
    retryable: true,
    level: 'error',
    text: 'The ledger does not hold what was acknowledged before: an older copy was restored, or it was rewritten.',
  },
  'evidence.event_not_found': refusal(404, 'No such event.'),
  'evidence.arguments_not_kept': refusal(404, 'Nothing is kept of the arguments of this event.'),
  'evidence.arguments_erased': refusal(410, 'What was kept of the arguments was erased.'),
  'evidence.not_a_decision': refusal(409, 'The event is no decision on an action.'),
  'evidence.id_conflict': refusal(409, 'Another event was already recorded under this id.'),
  'evidence.position_not_found': refusal(404, 'The ledger has no such position, or not yet.'),
  'evidence.size_not_found': refusal(404, 'The ledger is not that large, or not yet.'),
  'evidence.tile_not_found': refusal(404, 'The tree has no such tile, or not yet.'),
  'evidence.fork': {
    status: 500,
    retryable: false,
    level: 'error',
    text: 'The ledger is not the one that was signed before; nothing is signed or proved for it.',
  },

  'report.signing_unavailable': outage(503, 'Reports cannot be signed right now.'),

  // Execution by the control plane
  'execution.not_configured': refusal(403, 'No binding says where this tool is forwarded.'),
  'execution.outcome_unknown': refusal(
    200,
    'The call was begun and how it ended is not known; it is not sent again.',
  ),
  'execution.interrupted': outage(503, 'The control plane ended while the call was under way.'),

  // The sidecar's own refusals
  'proxy.auth_required': fault(407, 'This proxy needs its token: send Proxy-Authorization.'),
  'proxy.host_mismatch': fault(421, 'CONNECT authority, SNI and Host must agree.'),
  'proxy.host_not_permitted': fault(403, 'The sidecar’s authority may not speak for this host.'),
  'proxy.hosts_too_many': {
    status: 429,
    retryable: true,
    ownStatus: true,
    level: 'info',
    text: 'Too many new hosts at once; try again in a moment.',
  },
  'proxy.tls_failed': fault(400, 'The TLS handshake with the agent failed.'),
  'proxy.request_invalid': fault(400, 'The request is not one this proxy forwards.'),
  'proxy.request_timeout': fault(408, 'The request did not arrive in time.'),
  'proxy.protocol_refused': fault(403, 'This protocol is not forwarded.'),
  'proxy.tls_required': fault(
    403,
    'The tunnel to port 443 carries no TLS; send https:// requests, or http:// ones without CONNECT.',
  ),
  'proxy.tls_hello_invalid': fault(
    400,
    'The TLS ClientHello in the tunnel is malformed; use a TLS library that follows RFC 8446.',
  ),
  'proxy.tls_hello_too_large': fault(
    431,
    'The TLS ClientHello in the tunnel exceeds 32 KiB; offer fewer extensions and key shares.',
  ),
  'proxy.tls_hello_timeout': fault(
    408,
    'No complete TLS ClientHello arrived in the tunnel in time; send it right after CONNECT.',
  ),
  'proxy.ech_refused': fault(
    403,
    'The TLS ClientHello in the tunnel uses Encrypted Client Hello, which hides the server name; turn ECH and its GREASE off.',
  ),
  'proxy.sni_missing': fault(
    421,
    'The TLS ClientHello in the tunnel names no server; send SNI with the host of the CONNECT.',
  ),
  'proxy.sni_mismatch': fault(
    421,
    'The TLS ClientHello in the tunnel names another server than the CONNECT; send SNI with the host of the CONNECT.',
  ),
  'proxy.upgrade_refused': fault(403, 'No binding allows an upgrade here.', { mayBeUnbound: true }),
  'proxy.method_refused': fault(405, 'This method is not forwarded.'),
  'proxy.address_refused': fault(403, 'This address may not be reached.'),
  'proxy.path_refused': fault(400, 'The path is written in a way that cannot be judged.'),
  'proxy.too_many_connections': failure(503, 'The agent holds more connections than are allowed.'),
  'proxy.too_many_tunnels': failure(503, 'The agent holds more tunnels than are allowed.'),
  'proxy.too_many_held': failure(503, 'More calls wait for a human than are held at once.'),
  'proxy.buffers_full': failure(
    503,
    'The sidecar holds as many bytes of bodies as it may; try again in a moment.',
  ),
  'proxy.draining': failure(503, 'The sidecar is ending.'),
  'proxy.headers_too_large': fault(431, 'The header is larger than the limit.'),
  'proxy.content_type_refused': fault(415, 'The binding does not accept this content type.'),
  'proxy.unbound_call': fault(403, 'On this host only bound calls are possible.'),
  'mcp.malformed': fault(400, 'The MCP message is not valid.', { rpc: 'invalid_request' }),
  'mcp.batch_refused': fault(400, 'JSON-RPC batches are not forwarded.', {
    rpc: 'invalid_request',
  }),
  'mcp.header_mismatch': fault(400, 'MCP headers and body do not agree.', {
    rpc: 'header_mismatch',
    isHttpError: true,
  }),
  'mcp.meta_missing': fault(
    400,
    'Since revision 2026-07-28 a request says its protocol version in params._meta.',
    { rpc: 'invalid_params', isHttpError: true },
  ),
  'mcp.transport_unsupported': fault(
    405,
    'The HTTP+SSE transport of 2024-11-05 is not forwarded: use Streamable HTTP.',
  ),
  'mcp.answer_refused': fault(
    502,
    'The MCP server’s answer cannot be read in one way only, so it does not go on.',
  ),
  'bus.unavailable': outage(503, 'The sync bus cannot be reached.'),
  'store.unavailable': outage(503, 'The database cannot be reached.'),
  'sync.no_snapshot': outage(503, 'No verified policies are held here yet.'),
  'upstream.unreachable': upstream(502, 'The upstream cannot be reached.', { isUnanswered: true }),
  'upstream.timeout': upstream(504, 'The upstream did not answer in time.', { isUnanswered: true }),
  'upstream.certificate_expired': upstream(502, 'The upstream’s certificate has expired.'),
  'upstream.certificate_not_yet_valid': upstream(
    502,
    'The upstream’s certificate is not valid yet, by the sidecar’s clock.',
  ),
  'upstream.certificate_self_signed': upstream(
    502,
    'The upstream’s certificate is signed by itself; an operator can trust it by NODE_EXTRA_CA_CERTS.',
  ),
  'upstream.certificate_untrusted': upstream(
    502,
    'The upstream’s certificate is of no authority that the sidecar trusts; NODE_EXTRA_CA_CERTS names more.',
  ),
  'upstream.certificate_weak': upstream(
    502,
    'The upstream’s certificate has too short a key or too weak a signature.',
  ),
  'upstream.certificate_wrong_host': upstream(
    502,
    'The upstream’s certificate is for another host.',
  ),
  'upstream.tls_version': upstream(502, 'The upstream speaks no TLS version from 1.2 on.'),
  'upstream.tls_invalid': upstream(502, 'No valid TLS connection to the upstream came about.'),
  'upstream.upgrade_refused': upstream(502, 'The upstream did not open the WebSocket.'),
  'upstream.reset': upstream(502, 'The upstream broke off.'),

  'internal.unexpected': failure(500, 'Something unexpected happened; it was recorded.'),
} as const satisfies Record<string, ErrorKind>;

export type ErrorCode = keyof typeof errorKinds;

export function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(errorKinds, code);
}

type FamilyOf<Code extends string> = Code extends `${infer Family}.${string}` ? Family : Code;
type ErrorFamily = FamilyOf<ErrorCode>;

/** The code's family: its part before the dot. */
export function errorFamily(code: ErrorCode): ErrorFamily {
  return code.replace(/\..*$/, '') as ErrorFamily;
}

/** What the table says of a reason code; nothing for one that a policy stamped. */
export function errorKindOf(code: string): ErrorKind | undefined {
  return isErrorCode(code) ? errorKinds[code] : undefined;
}
