import { z } from 'zod';
import { environments } from '../decision/action.ts';
import { policyLimits } from '../policy/definition-limits.ts';
import {
  agentId,
  goal,
  jsonObject,
  name,
  resourceId,
  riskTier,
  rowIdParam,
  text,
  toolId,
  userId,
} from './fields.ts';
import { operation } from './operation.ts';
import { jwkExample, publicJwk } from './passports.ts';
import { isStorableTime } from './schemas.ts';

const sidecarExample = 'sc_019a3f6c2b7e7c1f8a5d3e2f1a0b9c8d';

const shared = { tag: 'Sidecars' } as const;
const bySidecar = { ...shared, auth: 'sidecar', budget: 'sidecar' } as const;
const environment = z.enum(environments);
const sidecarParam = z.object({ id: name(64) });
const digest = z.string().regex(/^sha256:[0-9a-f]{64}$/);

export const createEnrolmentToken = operation({
  ...shared,
  id: 'createEnrolmentToken',
  method: 'POST',
  path: '/v1/sidecars/tokens',
  summary: 'Make a token with which a sidecar enrols for one agent and user',
  auth: 'bearer',
  permission: 'agent.write',
  body: z.object({
    agent_id: agentId,
    user_id: userId,
    environment: environment.default('prod'),
    max_uses: z.number().int().min(1).max(1000).default(1),
  }),
  bodyExample: { agent_id: '7', user_id: 'user_12', environment: 'prod' },
  success: {
    status: 201,
    description: 'The token, shown once; it is good for ten minutes.',
    schema: z.object({
      token: z.string(),
      expires_at: z.string(),
      agent_id: z.string(),
      user_id: z.string(),
      environment,
      max_uses: z.number().int(),
    }),
    example: {
      token: 'set_QmFzZTY0VVJMb2YzMnJhbmRvbWJ5dGVzMDEyMzQ1Njc',
      expires_at: '2026-11-20T10:10:00.000Z',
      agent_id: '7',
      user_id: 'user_12',
      environment: 'prod',
      max_uses: 1,
    },
  },
  errors: ['args.schema_invalid', 'agent.not_found'],
});

/** A public key as a sidecar makes it: what it claims its `kid` to be is not read. */
const enrolledJwk = z.object({ kty: z.literal('OKP'), crv: z.string(), x: z.string().max(64) });

export const enrolSidecar = operation({
  ...shared,
  id: 'enrolSidecar',
  method: 'POST',
  path: '/v1/sidecars/enrol',
  summary: 'Enrol a sidecar’s own keys with a token',
  auth: 'none',
  budget: 'address',
  body: z.object({
    token: name(200),
    /** Ed25519. */
    signing_jwk: enrolledJwk,
    /** X25519. */
    encryption_jwk: enrolledJwk,
    version: text(64).optional(),
  }),
  bodyExample: {
    token: 'set_QmFzZTY0VVJMb2YzMnJhbmRvbWJ5dGVzMDEyMzQ1Njc',
    signing_jwk: { kty: 'OKP', crv: 'Ed25519', x: jwkExample.x },
    encryption_jwk: { kty: 'OKP', crv: 'X25519', x: 'hSDwCYkwp1R0i33ctD73Wg2_Og0mOBr066SpjqqbTmo' },
    version: '0.1.0',
  },
  success: {
    status: 201,
    description: 'Whom the sidecar acts for, and the keys it must pin.',
    schema: z.object({
      sidecar_id: z.string(),
      tenant_id: z.string(),
      agent_id: z.string(),
      user_id: z.string(),
      environment,
      /** Verify signed sections and heartbeats. */
      section_keys: z.array(publicJwk),
      passport_keys: z.array(publicJwk),
      audience: z.string(),
      hold_ms: z.number().int().optional(),
    }),
    example: {
      sidecar_id: sidecarExample,
      tenant_id: 'default',
      agent_id: '7',
      user_id: 'user_12',
      environment: 'prod',
      section_keys: [jwkExample],
      passport_keys: [jwkExample],
      audience: `sidecar://${sidecarExample}`,
    },
  },
  errors: ['args.schema_invalid', 'sidecar.token_invalid', 'agent.not_found'],
});

const report = z.object({
  versions: z.record(z.string().max(200), z.number().int()).optional(),
  /** Age of the replica. */
  age_ms: z.number().min(0).optional(),
  spool_depth: z.number().int().min(0).optional(),
  last_decision_at: z.iso.datetime().optional(),
  version: text(64).optional(),
});

const reportExample = {
  versions: { policies: 4, tools: 2 },
  age_ms: 120,
  spool_depth: 0,
  last_decision_at: '2026-11-20T10:00:00.000Z',
  version: '0.1.0',
} as const;

const sidecarRecord = z.object({
  id: z.string(),
  agent_id: z.string(),
  user_id: z.string(),
  environment,
  enrolled_at: z.string(),
  last_seen_at: z.string().optional(),
  revoked_at: z.string().optional(),
  acked_record: z.number(),
  report: report.optional(),
});

export const listSidecars = operation({
  ...shared,
  id: 'listSidecars',
  method: 'GET',
  path: '/v1/sidecars',
  summary: 'The fleet, with each sidecar’s last report',
  auth: 'bearer',
  permission: 'read',
  success: {
    status: 200,
    description: 'Every sidecar of the tenant, oldest first.',
    schema: z.object({ sidecars: z.array(sidecarRecord) }),
    example: {
      sidecars: [
        {
          id: sidecarExample,
          agent_id: '7',
          user_id: 'user_12',
          environment: 'prod',
          enrolled_at: '2026-11-20T09:00:00.000Z',
          last_seen_at: '2026-11-20T10:00:00.000Z',
          acked_record: 812,
          report: reportExample,
        },
      ],
    },
  },
  errors: [],
});

export const reportSidecar = operation({
  ...bySidecar,
  id: 'reportSidecar',
  method: 'POST',
  path: '/v1/sidecars/report',
  summary: 'What the sidecar holds and how it fares',
  body: report,
  bodyExample: reportExample,
  success: {
    status: 200,
    description: 'Noted.',
    schema: z.object({ seen_at: z.string() }),
    example: { seen_at: '2026-11-20T10:00:00.000Z' },
  },
  errors: ['args.schema_invalid', 'sidecar.revoked'],
});

export const getSidecarCredentials = operation({
  ...bySidecar,
  id: 'getSidecarCredentials',
  method: 'GET',
  path: '/v1/sidecars/credentials',
  summary: 'The credentials bound to the sidecar’s agent’s tools, encrypted to its key',
  success: {
    status: 200,
    description: 'A compact JWE (ECDH-ES, A256GCM) of `{credentials: HeldCredential[]}`.',
    schema: z.object({ jwe: z.string(), version: z.number().int() }),
    example: { jwe: 'eyJhbGciOiJFQ0RILUVTIn0..…', version: 1_795_168_800_001 },
  },
  errors: ['sidecar.revoked', 'credential.unreadable'],
});

/** No record of a spool is longer. */
const spoolRecordMax = 1_048_576;

const uploadedEvent = z.strictObject({
  id: z.string().regex(/^ev_[0-9a-f]{32}$/),
  type: name(64),
  chain_id: name(128),
  occurred_at: z.iso.datetime({ precision: 3 }).refine(isStorableTime),
  source: name(128),
  agent_id: agentId.optional(),
  user_id: userId.optional(),
  // Whatever the agent called: a record that is refused holds up all that follow it.
  tool: text(spoolRecordMax).optional(),
  resource: text(spoolRecordMax).optional(),
  decision: name(64).optional(),
  reason_code: name(256).optional(),
  data: jsonObject,
});

const spoolPosition = z.object({ record: z.number().int().min(0), hash: z.string() });

export const uploadEvidence = operation({
  ...bySidecar,
  id: 'uploadEvidence',
  method: 'POST',
  path: '/v1/sidecars/evidence',
  summary: 'Upload records of the spool, in order; at least once',
  bodyBytesMax: 4 * 1024 ** 2,
  body: z.object({
    /** A compact JWS by the sidecar's key over `{sidecar, after, last}` (shared/evidence/spool-head.ts). */
    segment: z.string().max(4096),
    records: z
      .array(z.strictObject({ event: uploadedEvent, salt: z.string().max(128).optional() }))
      .min(1)
      .max(1000),
  }),
  bodyExample: {
    segment: 'eyJ…',
    records: [
      {
        event: {
          id: 'ev_019a3f6c2b7e7c1f8a5d3e2f1a0b9c8d',
          type: 'decision',
          chain_id: 'agent:7',
          occurred_at: '2026-11-20T10:00:00.000Z',
          source: `sidecar:${sidecarExample}`,
          agent_id: '7',
          user_id: 'user_12',
          tool: 'payments.refund',
          resource: 'payment:pay_81',
          decision: 'allow',
          reason_code: 'refund.small_in_scope',
          data: { args_shape: { amount: 'number' } },
        },
        salt: 'MDEyMzQ1Njc4OWFiY2RlZg==',
      },
    ],
  },
  success: {
    status: 200,
    description: 'Everything up to `acked` is sealed: the sidecar may drop it.',
    schema: z.object({ sealed: z.number().int(), acked: spoolPosition }),
    example: { sealed: 1, acked: { record: 813, hash: '6c'.repeat(32) } },
  },
  errors: [
    'args.schema_invalid',
    'evidence.event_invalid',
    'evidence.id_conflict',
    'evidence.seal_failed',
    'sidecar.revoked',
  ],
});

export const openSidecarApproval = operation({
  ...bySidecar,
  id: 'openSidecarApproval',
  method: 'POST',
  path: '/v1/sidecars/approvals',
  summary: 'Ask a human about an action of the sidecar’s own agent',
  body: z.object({
    tool: toolId,
    resource: resourceId,
    args: jsonObject,
    goal: goal.optional(),
    /** With `passport_jti`: the user of the passport that the agent presented, when not the enrolment's. */
    user_id: userId.optional(),
    passport_jti: name(256).optional(),
    reason_code: name(256),
    matched_rules: z.array(text(512)).max(10_000),
    policy_hash: digest.optional(),
    manifest_hash: digest.optional(),
    risk_tier: riskTier,
    terms: z.object({
      // What policies may ask for, all of it: terms that are refused here would be a denial there.
      channels: z.array(name(policyLimits.channelLength)).max(policyLimits.rules),
      minRole: name(64),
      quorum: z.number().int().min(1).max(policyLimits.quorum),
      slaSeconds: z.number().int().min(1).max(policyLimits.slaSeconds).optional(),
    }),
    action_digest: digest,
  }),
  bodyExample: {
    tool: 'payments.refund',
    resource: 'payment:pay_81',
    args: { amount: 40, currency: 'EUR' },
    reason_code: 'refund.needs_human',
    matched_rules: ['refunds/over_25'],
    risk_tier: 'high',
    terms: { channels: [], minRole: 'approver', quorum: 1 },
    action_digest: `sha256:${'3e'.repeat(32)}`,
  },
  success: {
    status: 201,
    description: 'The open approval for exactly this action.',
    schema: z.object({ approval_id: z.number().int(), status: z.string(), expires_at: z.string() }),
    example: { approval_id: 42, status: 'pending', expires_at: '2026-11-20T11:00:00.000Z' },
  },
  errors: ['args.schema_invalid', 'approval.invalid', 'approval.too_many_open', 'sidecar.revoked'],
});

export const spendSidecarApproval = operation({
  ...bySidecar,
  id: 'spendSidecarApproval',
  method: 'POST',
  path: '/v1/sidecars/approvals/{id}/spend',
  summary: 'Use a granted approval, once, right before performing its action',
  params: rowIdParam,
  success: {
    status: 200,
    description: 'Nobody else may use it any more.',
    schema: z.object({ spent: z.literal(true), event_hash: z.string() }),
    example: { spent: true, event_hash: `sha256:${'4f'.repeat(32)}` },
  },
  errors: [
    'approval.not_found',
    'approval.used',
    'approval.invalid',
    'approval.expired',
    'sidecar.revoked',
  ],
});

export const claimSidecarPassport = operation({
  ...bySidecar,
  id: 'claimSidecarPassport',
  method: 'POST',
  path: '/v1/sidecars/passports/claim',
  summary: 'The durable second lock on a passport’s single use, for high and critical risk',
  body: z.object({ jti: name(256) }),
  bodyExample: { jti: 'pp_019a3f6c2b7e7c1f8a5d3e2f1a0b9c8d' },
  success: {
    status: 200,
    description: 'Whether the caller was first.',
    schema: z.object({ claimed: z.boolean() }),
    example: { claimed: true },
  },
  errors: ['args.schema_invalid', 'passport.agent_mismatch', 'sidecar.revoked'],
});

export const revokeSidecar = operation({
  ...shared,
  id: 'revokeSidecar',
  method: 'DELETE',
  path: '/v1/sidecars/{id}',
  summary: 'Revoke a sidecar: its tokens, lease and grants end at once',
  auth: 'bearer',
  permission: 'agent.write',
  budget: 'control',
  params: sidecarParam,
  success: {
    status: 200,
    description: 'Revoked.',
    schema: z.object({ id: z.string(), revoked: z.literal(true), revoked_at: z.string() }),
    example: { id: sidecarExample, revoked: true, revoked_at: '2026-11-20T10:00:00.000Z' },
  },
  errors: ['sidecar.not_found'],
});
