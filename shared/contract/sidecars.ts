import { z } from 'zod';
import { publicJwk } from '../crypto/signing-key.ts';
import { environments } from '../vocabulary/action.ts';
import { agentId, name, text, userId } from './base/fields.ts';
import { named, statedAs } from './base/json-schema.ts';
import { operation } from './base/operation.ts';
import { dateTime } from './base/schemas.ts';
import { jwkExample } from './passports.ts';

export const sidecarExample = 'sc_019a3f6c2b7e7c1f8a5d3e2f1a0b9c8d';

const shared = { tag: 'Sidecars' } as const;
/** Shared by all operations that an enrolled sidecar calls. */
export const bySidecar = { ...shared, auth: 'sidecar', budget: 'sidecar' } as const;
const environment = z.enum(environments);
const sidecarParam = z.object({ id: name(64) });

export const createEnrolmentToken = operation({
  ...shared,
  id: 'createEnrolmentToken',
  method: 'POST',
  path: '/v1/sidecars/tokens',
  summary: 'Create an enrolment token for a sidecar of one agent and user',
  description:
    'Only owners and admins can create tokens, because an enrolled sidecar receives the credentials that its agent’s capabilities reach. Only an owner can name a user who has an owner’s key. A key that is bound to an agent must repeat the user and environment of an active sidecar of that agent.',
  auth: 'bearer',
  permission: 'sidecar.enrol',
  body: z.strictObject({
    agent_id: agentId,
    user_id: userId,
    environment: environment.default('prod'),
    max_uses: z.number().int().min(1).max(1000).default(1),
  }),
  bodyExample: { agent_id: '7', user_id: 'user_12', environment: 'prod' },
  success: {
    status: 201,
    description: 'The token. It is shown once and is valid for ten minutes.',
    schema: z.object({
      token: z.string(),
      expires_at: z.string(),
      agent_id: z.string(),
      user_id: z.string(),
      environment,
      max_uses: z.number().int(),
      /**
       * The tools that the agent may currently call. The agent's sidecars receive the credentials
       * of these tools.
       */
      capabilities: z.array(z.string()),
    }),
    example: {
      token: 'set_QmFzZTY0VVJMb2YzMnJhbmRvbWJ5dGVzMDEyMzQ1Njc',
      expires_at: '2026-11-20T10:10:00.000Z',
      agent_id: '7',
      user_id: 'user_12',
      environment: 'prod',
      max_uses: 1,
      capabilities: ['payments.refund', 'mcp.tickets.*'],
    },
  },
  errors: [
    'args.schema_invalid',
    'agent.not_found',
    'agent.disabled',
    'agent.mismatch',
    'sidecar.grant_exceeds_own',
  ],
});

/** A public key from a sidecar. Its `kid` is computed; a supplied one is ignored. */
export const enrolledJwk = (crv: string) =>
  z.strictObject({
    kty: z.literal('OKP'),
    crv: statedAs(z.string().max(16), { const: crv }),
    // 32 bytes in base64url: the last of 43 characters has two zero bits.
    x: z
      .string()
      .regex(/^[\w-]{42}[AEIMQUYcgkosw048]$/, 'must be the base64url of a 32-byte public key'),
  });

/** The response to an enrolment. */
export const enrolledSidecar = {
  status: 201,
  description: 'The agent and user that the sidecar acts for, and the keys that it must pin.',
  schema: z.object({
    sidecar_id: z.string(),
    tenant_id: z.string(),
    agent_id: z.string(),
    user_id: z.string(),
    environment,
    /** Keys that verify signed sections and heartbeats. */
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
};

export const enrolSidecar = operation({
  ...shared,
  id: 'enrolSidecar',
  method: 'POST',
  path: '/v1/sidecars/enrol',
  summary: 'Enrol a sidecar’s public keys with a token',
  auth: 'none',
  budget: 'address',
  body: z.strictObject({
    token: name(200),
    /** Ed25519. */
    signing_jwk: enrolledJwk('Ed25519'),
    /** X25519. */
    encryption_jwk: enrolledJwk('X25519'),
    version: text(64).optional(),
  }),
  bodyExample: {
    token: 'set_QmFzZTY0VVJMb2YzMnJhbmRvbWJ5dGVzMDEyMzQ1Njc',
    signing_jwk: { kty: 'OKP', crv: 'Ed25519', x: jwkExample.x },
    encryption_jwk: { kty: 'OKP', crv: 'X25519', x: 'hSDwCYkwp1R0i33ctD73Wg2_Og0mOBr066SpjqqbTmo' },
    version: '0.1.0',
  },
  success: enrolledSidecar,
  errors: ['args.schema_invalid', 'sidecar.token_invalid', 'agent.not_found', 'agent.disabled'],
});

const sectionVersions = z.record(z.string().max(200), z.number().int());

/** A sidecar's report about itself, in the form that is sent, stored and shown. */
export const report = z.strictObject({
  /** Version of every section that the sidecar has. */
  versions: sectionVersions.optional(),
  /** Age of the sidecar's replica. */
  age_ms: z.number().min(0).max(Number.MAX_SAFE_INTEGER).optional(),
  spool_depth: z.number().int().min(0).optional(),
  /** Number of records that the sidecar has written to its spool so far. */
  spool_written: z.number().int().min(0).optional(),
  last_decision_at: dateTime.optional(),
  last_decision: z.strictObject({ decision: text(64), reason_code: text(256) }).optional(),
  version: text(64).optional(),
});
named('SidecarReport', report);

const reportExample = {
  versions: { policies: 4, tools: 2 },
  age_ms: 120,
  spool_depth: 0,
  spool_written: 812,
  last_decision_at: '2026-11-20T10:00:00.000Z',
  last_decision: { decision: 'allow', reason_code: 'refund.small_in_scope' },
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
  /** Why the sidecar was revoked. */
  revoked_for: z.enum(['operator', 'replaced', 'rule', 'unseen']).optional(),
  /** The pod, if the sidecar enrolled with a workload token. */
  workload: z
    .object({
      rule: z.string(),
      issuer: z.string(),
      namespace: z.string(),
      service_account: z.string(),
      pod_name: z.string(),
      pod_uid: z.string(),
    })
    .optional(),
  /** When the sidecar's agent was disabled. */
  agent_disabled_at: z.string().optional(),
  acked_record: z.number(),
  /**
   * Number of events in the chain `sidecar:<id>` that report problems with the sidecar's evidence.
   */
  evidence_incidents: z.number().int(),
  last_evidence_incident: z.object({ type: z.string(), at: z.string() }).optional(),
  report: report.optional(),
});
named('Sidecar', sidecarRecord);

export const listSidecars = operation({
  ...shared,
  id: 'listSidecars',
  method: 'GET',
  path: '/v1/sidecars',
  summary: 'List sidecars with their last reports',
  auth: 'bearer',
  permission: 'read',
  // A separate request budget, so that polling dashboards and busy agents do not block deciders.
  budgetPerMinute: 600,
  success: {
    status: 200,
    description: 'Every sidecar of the tenant, oldest first.',
    schema: z.object({
      sidecars: z.array(sidecarRecord),
      /** The current versions; a sidecar that reports a lower one is behind. */
      sections: sectionVersions,
    }),
    example: {
      sections: { policies: 4, tools: 2 },
      sidecars: [
        {
          id: sidecarExample,
          agent_id: '7',
          user_id: 'user_12',
          environment: 'prod',
          enrolled_at: '2026-11-20T09:00:00.000Z',
          last_seen_at: '2026-11-20T10:00:00.000Z',
          acked_record: 812,
          evidence_incidents: 0,
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
  summary: 'Report the sidecar’s state',
  body: report,
  bodyExample: reportExample,
  success: {
    status: 200,
    description: 'Noted.',
    schema: z.object({
      seen_at: z.string(),
      /** The current signing key of sections and heartbeats. */
      section_key_id: z.string(),
    }),
    example: { seen_at: '2026-11-20T10:00:00.000Z', section_key_id: jwkExample.kid },
  },
  errors: ['args.schema_invalid', 'sidecar.revoked'],
});

export const getSidecarCredentials = operation({
  ...bySidecar,
  id: 'getSidecarCredentials',
  method: 'GET',
  path: '/v1/sidecars/credentials',
  summary: 'Credentials for the tools of the sidecar’s agent, encrypted to its key',
  success: {
    status: 200,
    description: 'A compact JWE (ECDH-ES, A256GCM) of `{credentials: HeldCredential[]}`.',
    schema: z.object({ jwe: z.string(), version: z.number().int() }),
    example: { jwe: 'eyJhbGciOiJFQ0RILUVTIn0..…', version: 1_795_168_800_001 },
  },
  errors: ['sidecar.revoked', 'credential.unreadable', 'evidence.seal_failed'],
});

export const revokeSidecar = operation({
  ...shared,
  id: 'revokeSidecar',
  method: 'DELETE',
  path: '/v1/sidecars/{id}',
  summary: 'Revoke a sidecar with its tokens, lease and grants, effective immediately',
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
