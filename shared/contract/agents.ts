import { z } from 'zod';
import { goal, name, riskTier, rowIdParam, text, toolId } from './base/fields.ts';
import { named } from './base/json-schema.ts';
import { operation } from './base/operation.ts';
import { dateTime, integerId, line, pageLimit, warnings } from './base/schemas.ts';

const shared = { tag: 'Agents', auth: 'bearer' } as const;

export const agentIdNumber = z.number().int().min(1).max(2_147_483_647);

const agentStatuses = ['active', 'disabled'] as const;

const agentRecord = z.object({
  agent_id: z.number().int(),
  name: z.string(),
  kind: z.string(),
  capabilities: z.array(z.string()),
  goal: z.string().optional(),
  blast_radius: riskTier,
  status: z.enum(agentStatuses),
  disabled_at: z.string().optional(),
  disabled_by: z.string().optional(),
  disabled_reason: z.string().optional(),
  created_at: z.string(),
  updated_at: z.string(),
});
named('Agent', agentRecord);
export type AgentAnswer = z.output<typeof agentRecord>;

const agentExample = {
  agent_id: 7,
  name: 'support-bot',
  kind: 'support',
  capabilities: ['payments.refund', 'mcp.tickets.*'],
  goal: 'Answer customers',
  blast_radius: 'medium',
  status: 'active',
  created_at: '2026-11-20T10:00:00.000Z',
  updated_at: '2026-11-20T10:00:00.000Z',
} as const;

export const registerAgent = operation({
  ...shared,
  id: 'registerAgent',
  method: 'POST',
  path: '/v1/agents/register',
  summary: 'Register an agent, or update the one of that name and kind',
  description:
    'A disabled agent that is registered again stays disabled. Capabilities that reach a stored credential, and new ones of an agent that has sidecars, need the permission `sidecar.enrol` as well.',
  permission: 'agent.write',
  body: z.strictObject({
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
    description:
      'The agent as it is registered now. `warnings` names capabilities that match no known tool.',
    schema: agentRecord.extend({ warnings }),
    example: agentExample,
  },
  errors: ['args.schema_invalid', 'agent.mismatch', 'agent.widening_refused', 'plan.cap_reached'],
});

export const listAgents = operation({
  ...shared,
  id: 'listAgents',
  method: 'GET',
  path: '/v1/agents',
  summary: 'The tenant’s agents',
  description: 'A key that is bound to an agent sees that agent only.',
  permission: 'read',
  query: z.object({
    status: z.enum(agentStatuses).optional(),
    kind: z.string().max(30).optional(),
    limit: pageLimit,
    /** `next_cursor` of the page before. */
    cursor: integerId.optional(),
  }),
  success: {
    status: 200,
    description: 'One page of agents, oldest first; `next_cursor` is null on the last.',
    schema: z.object({ agents: z.array(agentRecord), next_cursor: z.string().nullable() }),
    example: { agents: [agentExample], next_cursor: null },
  },
  errors: ['request.invalid'],
});

const serviceAccountRecord = z.object({
  id: z.string(),
  name: z.string(),
  /** Whom its key stands for: never a human account. */
  principal: z.string(),
  created_at: z.string(),
  /** Whether a key of it is valid. */
  active: z.boolean(),
});
named('ServiceAccount', serviceAccountRecord);

const serviceAccountExample = {
  id: 'sa_019a3f6c2b7e7c1f8a5d3e2f1a0b9c8d',
  name: 'ci runner',
  principal: 'service-account:sa_019a3f6c2b7e7c1f8a5d3e2f1a0b9c8d',
  created_at: '2026-11-20T10:00:00.000Z',
} as const;

const agentDetail = agentRecord.extend({ service_accounts: z.array(serviceAccountRecord) });

export const getAgent = operation({
  ...shared,
  id: 'getAgent',
  method: 'GET',
  path: '/v1/agents/{id}',
  summary: 'One agent, and its service accounts',
  permission: 'read',
  params: rowIdParam,
  success: {
    status: 200,
    description: 'The agent.',
    schema: agentDetail,
    example: { ...agentExample, service_accounts: [{ ...serviceAccountExample, active: true }] },
  },
  errors: ['request.invalid', 'agent.not_found', 'agent.mismatch'],
});

export const updateAgent = operation({
  ...shared,
  id: 'updateAgent',
  method: 'PATCH',
  path: '/v1/agents/{id}',
  summary: 'Disable an agent, or enable it again',
  description:
    'Nothing is done for a disabled agent, in any mode: decisions are `agent.disabled`, and at its sidecars what is open ends as by a kill switch. The passports that were issued to it are revoked for good; enabling does not bring them back. An agent that somebody of a higher role disabled is enabled by that role or a higher one only. Keys that are bound to an agent cannot do this.',
  permission: 'agent.write',
  budget: 'control',
  params: rowIdParam,
  body: z.strictObject({ disabled: z.boolean(), reason: text(1000).optional() }),
  bodyExample: { disabled: true, reason: 'Sends mail to strangers' },
  success: {
    status: 200,
    description: 'The agent as it is now. Doing the same again changes nothing.',
    schema: agentRecord,
    example: {
      ...agentExample,
      status: 'disabled',
      disabled_at: '2026-11-20T11:00:00.000Z',
      disabled_by: 'alice',
      disabled_reason: 'Sends mail to strangers',
    },
  },
  errors: [
    'request.invalid',
    'args.schema_invalid',
    'agent.not_found',
    'agent.mismatch',
    'agent.disabled_by_higher_role',
  ],
});

export const createServiceAccount = operation({
  ...shared,
  id: 'createServiceAccount',
  method: 'POST',
  path: '/v1/agents/service-accounts',
  summary: 'Give an agent an identity of its own, with an API key that is shown this once',
  description:
    'The key has the role `agent` and is bound to the agent: it acts for no other. It is revoked like any key (`DELETE /v1/keys`); the same name then gets a new key under the same identity.',
  permission: 'key.write',
  body: z.strictObject({
    agent_id: agentIdNumber,
    name: line(100),
    expires_at: dateTime.optional(),
  }),
  bodyExample: { agent_id: 7, name: 'ci runner' },
  accessExample: { object: '/v1/agents', body: { agent_id: '{id}', name: 'ci runner' } },
  success: {
    status: 201,
    description: 'The service account and its key, shown exactly once.',
    schema: serviceAccountRecord.omit({ active: true }).extend({
      agent_id: z.number().int(),
      key: z.string(),
      /** For `DELETE /v1/keys`. */
      key_id: z.string(),
      role: z.literal('agent'),
      expires_at: z.string().nullable(),
    }),
    example: {
      ...serviceAccountExample,
      agent_id: 7,
      key: 'apk_…',
      key_id: 'key_0198c5f0a1b27c3d8e4f5a6b7c8d9e0f',
      role: 'agent',
      expires_at: null,
    },
  },
  errors: [
    'args.schema_invalid',
    'agent.not_found',
    'agent.disabled',
    'agent.mismatch',
    'key.role_exceeds_own',
    'service_account.exists',
  ],
});
