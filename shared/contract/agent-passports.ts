import { z } from 'zod';
import { gatewayAudience } from '../passport/audience.ts';
import { ttlSecondsDefault } from '../passport/issue.ts';
import { agentIdNumber } from './agents.ts';
import { jsonObject, name, riskTier, text, userId } from './base/fields.ts';
import { operation } from './base/operation.ts';
import {
  claimsExample,
  compactJws,
  passportClaims,
  passportFailure,
  resourceList,
  toolList,
  ttlSeconds,
} from './passports.ts';

const shared = { method: 'POST', tag: 'Agents', auth: 'bearer' } as const;

const issued = z.object({
  token: z.string(),
  claims: passportClaims,
  expires_at: z.string(),
  evidence_id: z.string(),
});

const issuedExample = {
  token: 'eyJ…',
  claims: claimsExample,
  expires_at: '2026-11-20T10:05:00.000Z',
  evidence_id: 'ev_019a3f6c2b7e7c1f8a5d3e2f1a0b9c8d',
} as const;

/** Each reason code identifies the step that failed. */
const failures = [
  'agent.load_failed',
  'policy.load_failed',
  'passport.sign_failed',
  'passport.persist_failed',
  'evidence.seal_failed',
] as const;

export const issueAgentPassport = operation({
  ...shared,
  id: 'issueAgentPassport',
  path: '/v1/agents/issue-passport',
  summary: 'Issue a passport to a registered agent, limited to its capabilities',
  permission: 'passport.issue',
  body: z.strictObject({
    agent_id: agentIdNumber,
    requested_tools: toolList,
    /**
     * Binds the passport to one user. Without this field, the passport is valid for every user that
     * the agent acts for.
     */
    user_id: userId.optional(),
    requested_resources: resourceList.optional(),
    resource_constraints: jsonObject.optional(),
    ttl_seconds: ttlSeconds.default(ttlSecondsDefault),
    purpose: text(4096).optional(),
    audience: name(512).default(gatewayAudience),
    risk_tier: riskTier.optional(),
  }),
  bodyExample: { agent_id: 7, requested_tools: ['payments.refund'], purpose: 'Refund pay_81' },
  accessExample: {
    object: '/v1/agents',
    body: { agent_id: '{id}', requested_tools: ['payments.refund'] },
  },
  success: {
    status: 201,
    description: 'The signed passport, its claims, and the evidence event of the issue.',
    schema: issued,
    example: issuedExample,
  },
  errors: [
    'args.schema_invalid',
    'passport.ttl_invalid',
    'passport.tool_not_allowed',
    'passport.user_mismatch',
    'agent.not_found',
    'agent.disabled',
    'agent.mismatch',
    ...failures,
  ],
});

export const validateAgent = operation({
  ...shared,
  id: 'validateAgent',
  path: '/v1/agents/validate',
  summary: 'Check an agent, and optionally a passport, without using the passport',
  description:
    'Returns 200 for any passport; `errors` lists the failed checks. `effective_tools` lists the passport’s tools that the agent’s capabilities still cover.',
  permission: 'passport.verify',
  body: z.strictObject({
    agent_id: agentIdNumber,
    passport: compactJws.optional(),
    audience: text(512).optional(),
  }),
  bodyExample: { agent_id: 7, passport: 'eyJ…' },
  accessExample: { object: '/v1/agents', body: { agent_id: '{id}' } },
  success: {
    status: 200,
    description: 'The result, with the failed checks.',
    schema: z.object({
      valid: z.boolean(),
      agent_id: z.number().int(),
      status: z.enum(['active', 'disabled']),
      capabilities: z.array(z.string()),
      errors: z.array(passportFailure),
      claims: passportClaims.optional(),
      effective_tools: z.array(z.string()).optional(),
    }),
    example: {
      valid: true,
      agent_id: 7,
      status: 'active',
      capabilities: ['payments.refund', 'mcp.tickets.*'],
      errors: [],
      claims: claimsExample,
      effective_tools: ['payments.refund'],
    },
  },
  errors: ['args.schema_invalid', 'agent.not_found', 'agent.mismatch', 'agent.load_failed'],
});

const renewal = {
  ...shared,
  permission: 'passport.issue',
  body: z.strictObject({
    agent_id: agentIdNumber,
    passport: compactJws,
    /** At most the lifetime of the old passport, which is also the default. */
    ttl_seconds: ttlSeconds.optional(),
  }),
  bodyExample: { agent_id: 7, passport: 'eyJ…' },
  accessExample: { object: '/v1/agents', body: { agent_id: '{id}', passport: 'eyJ…' } },
  success: {
    status: 201,
    description: 'The new passport. The old one is consumed.',
    schema: issued.extend({
      /** The jti of the old passport. */
      replaces: z.string(),
    }),
    example: { ...issuedExample, replaces: 'pp_019a3f6b00007c1f8a5d3e2f1a0b9c8d' },
  },
  errors: [
    'args.schema_invalid',
    'passport.ttl_invalid',
    'passport.malformed',
    'passport.signature_invalid',
    'passport.expired',
    'passport.not_yet_valid',
    'passport.tenant_mismatch',
    'passport.agent_mismatch',
    'passport.revoked',
    'passport.replay_detected',
    'passport.claim_unavailable',
    'passport.not_renewable',
    'passport.tool_not_allowed',
    'approval.invalid',
    'approval.used',
    'approval.expired',
    'agent.not_found',
    'agent.disabled',
    'agent.mismatch',
    ...failures,
  ],
} as const;

export type RenewalRequest = z.output<typeof renewal.body>;

export const renewAgentPassport = operation({
  ...renewal,
  id: 'renewAgentPassport',
  path: '/v1/agents/renew',
  summary: 'Replace a valid, unused passport by a new one with the same terms',
  description:
    'The new passport never allows more: it omits tools that the agent’s capabilities no longer cover, and its lifetime is at most that of the old one. The old passport is consumed atomically, so only one of several renewals succeeds. Renewals end 12 hours after the first issue (`passport.not_renewable`).',
});

export const refreshAgentPassport = operation({
  ...renewal,
  id: 'refreshAgentPassport',
  path: '/v1/agents/refresh-passport',
  summary: 'Like renew, but also accepts a passport that expired at most 5 minutes ago',
  description:
    'Same as `renew` otherwise. The limit is 5 minutes because the record of used passports is reliable only for that time after expiry.',
});
