/**
 * Why the control plane may act on a field from a sidecar. `recomputed`: the control plane's own
 * value decides; the sent value is compared, or only makes the own value stricter. `bounded`: the
 * field can only name objects of the enrolment, looked up in signed rows. `proved`: a signature is
 * verified. `own`: the field concerns the sidecar's own work, and is recorded as the sidecar's
 * statement. `unread`: nothing reads the field.
 */
type Trust = 'recomputed' | 'bounded' | 'proved' | 'own' | 'unread';

type Fields = Readonly<Record<string, readonly [Trust, string]>>;

const action = 'judged by the control plane itself, and part of the recomputed digest';
const stricter = 'the control plane’s own terms, or these where they are stricter';
const word = 'the sidecar’s account of its own calls; the spool’s chain and signature bind it';

/**
 * All fields of all calls of enrolled sidecars, by operation. A test compares it with the contract.
 */
export const trustedFields: Readonly<Record<string, Fields>> = {
  reportSidecar: {
    'body.versions.*': ['own', 'shown to operators; confirms kill switches for itself only'],
    'body.age_ms': ['own', 'shown to operators'],
    'body.spool_depth': ['own', 'shown to operators'],
    'body.spool_written': ['recomputed', 'fewer than acknowledged or reported is an incident'],
    'body.last_decision_at': ['own', 'shown to operators'],
    'body.last_decision.decision': ['own', 'shown to operators'],
    'body.last_decision.reason_code': ['own', 'shown to operators'],
    'body.version': ['own', 'shown to operators'],
  },
  getSidecarCredentials: {},
  uploadEvidence: {
    'head.segment': ['proved', 'a JWS of the enrolled key over name, places and hashes'],
    'head.ledger.position': ['recomputed', 'compared with the ledger’s own batches'],
    'head.ledger.tree_root': ['recomputed', 'compared with the ledger’s own batches'],
    'head.ledger.jws': ['proved', 'verified with the tenant’s checkpoint keys'],
    'record.event.id': [
      'bounded',
      'stored under the sidecar’s name; a record with a used id is quarantined',
    ],
    'record.event.type': ['bounded', 'one of the types that a sidecar can send'],
    'record.event.chain_id': ['bounded', 'the agent’s chain or the sidecar’s'],
    'record.event.occurred_at': ['own', 'the sidecar’s clock; the row has the time of sealing'],
    'record.event.source': ['bounded', 'this sidecar'],
    'record.event.agent_id': ['bounded', 'the enrolment’s agent'],
    'record.event.user_id': ['bounded', 'the enrolment’s user, or that of an issued passport'],
    'record.event.tool': ['own', word],
    'record.event.resource': ['own', word],
    'record.event.decision': ['own', word],
    'record.event.reason_code': ['own', word],
    'record.event.data.*': [
      'bounded',
      'acted_for and environment are bound; the rest is its own statement',
    ],
    'record.salt': ['own', 'keys the digest of the sidecar’s own record'],
    'record.args.*': ['own', 'redacted arguments of the sidecar’s own record'],
  },
  openSidecarApproval: {
    'body.tool': ['recomputed', action],
    'body.resource': ['recomputed', action],
    'body.args.*': ['recomputed', action],
    'body.mcp.*': ['recomputed', action],
    'body.goal': ['own', 'shown to the approver as the agent’s own word'],
    'body.user_id': ['bounded', 'the enrolment’s user, or that of an issued passport'],
    'body.passport_jti': ['bounded', 'a passport issued to the agent for that user'],
    'body.passport': ['proved', 'verified and judged by the control plane'],
    'body.reason_code': ['unread', 'the control plane’s own verdict is stored'],
    'body.matched_rules[]': ['unread', 'the control plane’s own verdict is stored'],
    'body.policy_hash': ['unread', 'the control plane’s own verdict is stored'],
    'body.manifest_hash': ['recomputed', 'another one than the approved is refused'],
    'body.risk_tier': ['recomputed', stricter],
    'body.terms.channels[]': ['recomputed', stricter],
    'body.terms.minRole': ['recomputed', stricter],
    'body.terms.quorum': ['recomputed', stricter],
    'body.terms.slaSeconds': ['recomputed', stricter],
    'body.terms.grant.uses': ['recomputed', stricter],
    'body.terms.grant.ttlSeconds': ['recomputed', stricter],
    'body.terms.grant.scope': ['recomputed', stricter],
    'body.action_digest': ['recomputed', 'another one than of the action is refused'],
  },
  spendSidecarApproval: {
    'params.id': ['bounded', 'an approval of this sidecar, or a standing grant of its agent'],
  },
  getSidecarUsage: {
    'query.run': ['own', 'which of its own runs is left out of the answer'],
    'query.after': ['own', 'where its own reading continues'],
  },
  getKeySuccession: {},
  claimSidecarPassport: {
    'body.jti': ['bounded', 'a passport issued to the enrolment’s agent'],
  },
};
