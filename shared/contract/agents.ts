import { z } from 'zod';
import { gatewayAudience } from '../passport/audience.ts';
import { ttlSecondsDefault } from '../passport/issue.ts';
import { goal, jsonObject, name, riskTier, text, toolId, userId } from './fields.ts';
import { operation } from './operation.ts';
import { claimsExample, passportClaims, resourceList, toolList } from './passports.ts';

export const registerAgent = operation({
  id: 'registerAgent',
  method: 'POST',
  path: '/v1/agents/register',
  tag: 'Agents',
  summary: 'Register an agent, or update the one of that name and kind',
  auth: 'bearer',
  permission: 'agent.write',
  body: z.object({
    name: name(100),
    kind: name(30).default('ai_developer'),
    capabilities: z.array(toolId).max(1000),
    goal: goal.optional(),
    blastRadius: riskTier.optional(),
  }),
  bodyExample: {
    name: 'support-bot',
    kind: 'support',
    capabilities: ['payments.refund', 'mcp.tickets.*'],
    goal: 'Answer customers',
    blastRadius: 'medium',
  },
  success: {
    status: 201,
    description: 'The agent as it is registered now.',
    schema: z.object({
      agent_id: z.number().int(),
      name: z.string(),
      kind: z.string(),
      capabilities: z.array(z.string()),
      goal: z.string().optional(),
      blast_radius: riskTier,
      created_at: z.string(),
      updated_at: z.string(),
    }),
    example: {
      agent_id: 7,
      name: 'support-bot',
      kind: 'support',
      capabilities: ['payments.refund', 'mcp.tickets.*'],
      goal: 'Answer customers',
      blast_radius: 'medium',
      created_at: '2026-11-20T10:00:00.000Z',
      updated_at: '2026-11-20T10:00:00.000Z',
    },
  },
  errors: ['args.schema_invalid', 'plan.cap_reached'],
});

export const issueAgentPassport = operation({
  id: 'issueAgentPassport',
  method: 'POST',
  path: '/v1/agents/issue-passport',
  tag: 'Agents',
  summary: 'Issue a passport to a registered agent, clamped to its capabilities',
  auth: 'bearer',
  permission: 'passport.issue',
  body: z.object({
    agent_id: z.number().int().min(1).max(2_147_483_647),
    requested_tools: toolList,
    /** Binds the passport to one user; without it, it holds for whomever the agent acts for. */
    user_id: userId.optional(),
    requested_resources: resourceList.optional(),
    resource_constraints: jsonObject.optional(),
    ttl_seconds: z.number().int().default(ttlSecondsDefault),
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
    description: 'The signed passport, its claims, and the evidence that it was issued.',
    schema: z.object({
      token: z.string(),
      claims: passportClaims,
      expires_at: z.string(),
      evidence_id: z.string(),
    }),
    example: {
      token: 'eyJ…',
      claims: claimsExample,
      expires_at: '2026-11-20T10:05:00.000Z',
      evidence_id: 'ev_019a3f6c2b7e7c1f8a5d3e2f1a0b9c8d',
    },
  },
  errors: [
    'args.schema_invalid',
    'passport.ttl_invalid',
    'passport.tool_not_allowed',
    'agent.not_found',
    'agent.mismatch',
    'agent.load_failed',
    'policy.load_failed',
    'passport.sign_failed',
    'passport.persist_failed',
    'evidence.seal_failed',
  ],
});
