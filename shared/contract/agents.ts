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
  summary: 'Register an agent, or update the agent with that name and kind',
  description:
    'Registering a disabled agent again does not enable it. Capabilities that reach a stored credential, and new capabilities of an agent with sidecars, also require the permission `sidecar.enrol`.',
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
      'The registered agent. `warnings` lists capabilities that match no registered tool.',
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
  description: 'A key that is bound to an agent sees only that agent.',
  permission: 'read',
  query: z.object({
    status: z.enum(agentStatuses).optional(),
    kind: z.string().max(30).optional(),
    limit: pageLimit,
    /** `next_cursor` of the previous page. */
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
  /** Principal of the account's key; never a human account. */
  principal: z.string(),
  created_at: z.string(),
  /** True if at least one of the account's keys is valid. */
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
  summary: 'Get an agent with its service accounts',
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
  summary: 'Disable or enable an agent',
  description:
    'All actions of a disabled agent are refused with `agent.disabled`, in every mode, and its open streams, tunnels and held calls end. Its passports are revoked permanently; enabling the agent does not restore them. Only the role that disabled an agent, or a higher one, can enable it. Keys that are bound to an agent cannot use this operation.',
  permission: 'agent.write',
  budget: 'control',
  params: rowIdParam,
  body: z.strictObject({ disabled: z.boolean(), reason: text(1000).optional() }),
  bodyExample: { disabled: true, reason: 'Sends mail to strangers' },
  success: {
    status: 200,
    description: 'The agent. Repeating the request changes nothing.',
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
  summary: 'Create a service account with an API key for an agent',
  description:
    'The key has the role `agent` and can act only for this agent. Revoke it like any other key (`DELETE /v1/keys`); creating the account again then issues a new key for the same identity.',
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
    description: 'The service account and its key. The key is shown only in this response.',
    schema: serviceAccountRecord.omit({ active: true }).extend({
      agent_id: z.number().int(),
      key: z.string(),
      /** The key's id, for revoking the key with `DELETE /v1/keys`. */
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
