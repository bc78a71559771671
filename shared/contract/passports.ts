import { z } from 'zod';
import { publicJwk } from '../crypto/signing-key.ts';
import { ttlSecondsMax, ttlSecondsMin } from '../passport/issue.ts';
import {
  agentId,
  goal,
  jsonObject,
  name,
  resourceId,
  riskTier,
  text,
  toolId,
  userId,
} from './base/fields.ts';
import { named, statedAs } from './base/json-schema.ts';
import { operation } from './base/operation.ts';

export const passportClaims = z.object({
  iss: z.string(),
  sub: z.string(),
  aud: z.string(),
  tenant_id: z.string(),
  user_id: z.string(),
  goal: z.string(),
  allowed_tools: z.array(z.string()).readonly(),
  allowed_resources: z.array(z.string()).readonly(),
  resource_constraints: jsonObject,
  risk_tier: riskTier,
  policy_id: z.string(),
  policy_hash: z.string(),
  approval_hash: z.string().nullable(),
  jti: z.string(),
  iat: z.number(),
  nbf: z.number(),
  exp: z.number(),
  lease_size: z.number().optional(),
});
named('PassportClaims', passportClaims);

/** A token in any form; the response states whether the token is a valid passport. */
export const compactJws = text(1_048_576);

/** Refused with `passport.ttl_invalid` if out of bounds. */
export const ttlSeconds = statedAs(z.number().int(), {
  type: 'integer',
  minimum: ttlSecondsMin,
  maximum: ttlSecondsMax,
});

export const toolList = z.array(toolId).min(1).max(1000);
export const resourceList = z.array(resourceId).max(1000);

export const claimsExample = {
  iss: 'sallyport',
  sub: '7',
  aud: 'gateway://agents',
  tenant_id: 'default',
  user_id: 'user_12',
  goal: 'Refund the customer for a damaged parcel',
  allowed_tools: ['payments.refund'],
  allowed_resources: [],
  resource_constraints: {},
  risk_tier: 'medium',
  policy_id: 'refunds',
  policy_hash: `sha256:${'5d'.repeat(32)}`,
  approval_hash: null,
  jti: 'pp_019a3f6c2b7e7c1f8a5d3e2f1a0b9c8d',
  iat: 1_795_168_800,
  nbf: 1_795_168_800,
  exp: 1_795_169_100,
} as const;

/** One failed check of a passport. */
export const passportFailure = z.object({
  check: z.string(),
  reason_code: z.string(),
  message: z.string(),
});
named('PassportFailure', passportFailure);

const issued = z.object({
  /** The compact JWS. `token` has the same value, under the name that issue-passport uses. */
  passport: z.string(),
  token: z.string(),
  claims: passportClaims,
  jti: z.string(),
  expires_at: z.string(),
  evidence_id: z.string(),
});

export const issuePassport = operation({
  id: 'issuePassport',
  method: 'POST',
  path: '/v1/passports/issue',
  tag: 'Passports',
  summary: 'Issue a signed, single-use passport',
  description:
    'A registered agent never receives more tools than its capabilities. `ttl_seconds` is from 5 to 3600.',
  auth: 'bearer',
  permission: 'passport.issue',
  body: z.strictObject({
    tenant_id: name(128),
    agent_id: agentId,
    user_id: userId,
    goal,
    allowed_tools: toolList,
    allowed_resources: resourceList.optional(),
    resource_constraints: jsonObject.optional(),
    risk_tier: riskTier,
    policy_id: name(256),
    approval_hash: text(128).nullable().optional(),
    audience: name(512),
    ttl_seconds: ttlSeconds,
  }),
  bodyExample: {
    tenant_id: 'default',
    agent_id: '7',
    user_id: 'user_12',
    goal: 'Refund the customer for a damaged parcel',
    allowed_tools: ['payments.refund'],
    risk_tier: 'medium',
    policy_id: 'refunds',
    audience: 'gateway://agents',
    ttl_seconds: 300,
  },
  success: {
    status: 200,
    description: 'The signed passport and its claims.',
    schema: issued,
    example: {
      passport: 'eyJ…',
      token: 'eyJ…',
      claims: claimsExample,
      jti: claimsExample.jti,
      expires_at: '2026-11-20T10:05:00.000Z',
      evidence_id: 'ev_019a3f6c2b7e7c1f8a5d3e2f1a0b9c8d',
    },
  },
  errors: [
    'args.schema_invalid',
    'passport.ttl_invalid',
    'passport.tool_not_allowed',
    'passport.user_mismatch',
    'tenant.mismatch',
    'agent.disabled',
    'agent.mismatch',
    'agent.load_failed',
    'policy.load_failed',
    'passport.sign_failed',
    'passport.persist_failed',
    'evidence.seal_failed',
  ],
});

export const verifyPassport = operation({
  id: 'verifyPassport',
  method: 'POST',
  path: '/v1/passports/verify',
  tag: 'Passports',
  summary: 'Check a passport without using it',
  description: 'Returns 200 for any text; `errors` lists the failed checks.',
  auth: 'bearer',
  permission: 'passport.verify',
  body: z.strictObject({ passport: compactJws, audience: text(512).optional() }),
  bodyExample: { passport: 'eyJ…', audience: 'gateway://agents' },
  success: {
    status: 200,
    description: 'The result, with the failed checks.',
    schema: z.object({
      valid: z.boolean(),
      errors: z.array(passportFailure),
      claims: passportClaims.optional(),
    }),
    example: {
      valid: false,
      errors: [
        {
          check: 'expiry',
          reason_code: 'passport.expired',
          message: 'The passport has expired.',
        },
      ],
    },
  },
  errors: ['args.schema_invalid'],
});

export const revokePassport = operation({
  id: 'revokePassport',
  method: 'POST',
  path: '/v1/passports/revoke',
  tag: 'Passports',
  summary: 'Revoke a passport',
  description: 'Accepts any jti, known or not. Passports renewed from it are revoked too.',
  auth: 'bearer',
  permission: 'passport.revoke',
  budget: 'control',
  body: z.strictObject({ jti: name(256), reason: text(1000).optional() }),
  bodyExample: { jti: 'pp_019a3f6c2b7e7c1f8a5d3e2f1a0b9c8d', reason: 'Agent misbehaved' },
  success: {
    status: 200,
    description: 'The passport is revoked durably, on every replica.',
    schema: z.object({
      jti: z.string(),
      revoked: z.literal(true),
      revoked_at: z.string(),
      reason: z.string().optional(),
    }),
    example: {
      jti: 'pp_019a3f6c2b7e7c1f8a5d3e2f1a0b9c8d',
      revoked: true,
      revoked_at: '2026-11-20T10:00:00.000Z',
      reason: 'Agent misbehaved',
    },
  },
  errors: ['args.schema_invalid', 'agent.mismatch'],
});

named('PublicJwk', publicJwk);

export const jwkExample = {
  kty: 'OKP',
  crv: 'Ed25519',
  x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo',
  kid: 'kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k',
  use: 'sig',
  alg: 'EdDSA',
} as const;

export const getPassportJwks = operation({
  id: 'getPassportJwks',
  method: 'GET',
  path: '/v1/passports/jwks',
  tag: 'Passports',
  summary: 'List the verification keys of passports',
  description:
    'The active keys, and retired keys while passports signed by them can be valid. Needs no API key.',
  auth: 'none',
  budget: 'address',
  success: {
    status: 200,
    description: 'A JSON Web Key Set (RFC 7517).',
    schema: z.object({ keys: z.array(publicJwk) }),
    example: { keys: [jwkExample] },
  },
  errors: [],
});
