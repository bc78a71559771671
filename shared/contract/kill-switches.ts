import { z } from 'zod';
import { agentId } from './fields.ts';
import { operation } from './operation.ts';
import { dateTime, line, opaqueId, pageLimit } from './schemas.ts';

// A budget of their own: a noisy agent must not lock out those who stop it.
const shared = { tag: 'Runtime', auth: 'bearer', budget: 'control' } as const;

const kind = z.enum(['block_tool', 'block_agent', 'force_mode']);
/** A mode that everything is already at least as strict as would force nothing. */
const forcedMode = z.enum(['warn', 'enforce', 'strict']);
const status = z.enum(['armed', 'expired', 'disarmed']);

const killSwitchRecord = z.object({
  id: z.string(),
  kind,
  status,
  tool: z.string().optional(),
  agent_id: z.string().optional(),
  mode: z.string().optional(),
  reason: z.string(),
  armed_by: z.string(),
  armed_at: z.string(),
  expires_at: z.string().optional(),
  disarmed_by: z.string().optional(),
  disarmed_at: z.string().optional(),
});
export type KillSwitchRecord = z.output<typeof killSwitchRecord>;

const recordExample = {
  id: 'ks_0198c5f0a1b27c3d8e4f5a6b7c8d9e0f',
  kind: 'block_tool',
  status: 'armed',
  tool: 'payments.*',
  reason: 'Incident 12',
  armed_by: 'alice',
  armed_at: '2026-07-01T09:00:00.000Z',
  expires_at: '2026-07-01T10:00:00.000Z',
} as const;

export const listKillSwitches = operation({
  ...shared,
  id: 'listKillSwitches',
  method: 'GET',
  path: '/v1/runtime/kill-switches',
  summary: 'The kill switches that are armed, newest first',
  description: 'With `status=all` also those that expired or were disarmed.',
  permission: 'read',
  query: z.object({ status: z.enum(['armed', 'all']).default('armed'), limit: pageLimit }),
  success: {
    status: 200,
    description: 'What is blocked or forced now.',
    schema: z.object({ kill_switches: z.array(killSwitchRecord) }),
    example: { kill_switches: [recordExample] },
  },
  errors: ['request.invalid'],
});

export const armKillSwitch = operation({
  ...shared,
  id: 'armKillSwitch',
  method: 'POST',
  path: '/v1/runtime/kill-switches',
  summary: 'Block a tool or an agent, or force a stricter mode, at once and everywhere',
  description:
    'Blocks in every mode; ends streams, tunnels and held calls that match. `block_tool` needs `tool` (an id or a glob: `*` within a segment, `**` across; alone: everything) and may name one agent; `block_agent` needs `agent_id`; `force_mode` needs `mode` and may be narrowed by `tool` and `agent_id`.',
  permission: 'runtime.write',
  body: z.strictObject({
    kind,
    tool: line(256).regex(/^\S+$/, 'is a tool id or glob, without spaces').optional(),
    agent_id: agentId.optional(),
    mode: forcedMode.optional(),
    reason: line(1_000),
    expires_at: dateTime.optional(),
    idempotency_key: line(255).optional(),
  }),
  bodyExample: {
    kind: 'block_tool',
    tool: 'payments.*',
    reason: 'Incident 12',
    expires_at: '2026-07-01T10:00:00.000Z',
  },
  success: {
    status: 201,
    description: 'Armed: decisions of the control plane know it now, sidecars within moments.',
    schema: killSwitchRecord,
    example: recordExample,
  },
  errors: [
    'args.schema_invalid',
    'args.idempotency_conflict',
    'kill_switch.invalid',
    'agent.not_found',
  ],
});

export const disarmKillSwitch = operation({
  ...shared,
  id: 'disarmKillSwitch',
  method: 'DELETE',
  path: '/v1/runtime/kill-switches/{id}',
  summary: 'Disarm a kill switch; again changes nothing',
  permission: 'runtime.write',
  params: z.object({ id: opaqueId }),
  success: {
    status: 200,
    description: 'The kill switch as it was, with who disarmed it first and when.',
    schema: killSwitchRecord,
    example: {
      ...recordExample,
      status: 'disarmed',
      disarmed_by: 'bob',
      disarmed_at: '2026-07-01T09:30:00.000Z',
    },
  },
  errors: ['kill_switch.not_found'],
});
