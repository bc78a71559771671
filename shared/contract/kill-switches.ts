import { z } from 'zod';
import { agentId } from './base/fields.ts';
import { named } from './base/json-schema.ts';
import { operation } from './base/operation.ts';
import { dateTime, line, opaqueId, pageLimit, warnings, wholeNumber } from './base/schemas.ts';

// A separate request budget, so that busy agents cannot block the operators who stop them.
const shared = { tag: 'Runtime', auth: 'bearer', budget: 'control' } as const;

const kind = z.enum(['block_tool', 'block_agent', 'force_mode']);
/** `monitor` is missing, because forcing the least strict mode would have no effect. */
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
named('KillSwitch', killSwitchRecord);
export type KillSwitchRecord = z.output<typeof killSwitchRecord>;

const silentSidecar = z.object({ sidecar: z.string(), last_seen_at: z.string() });

/** Which sidecars have applied the change; present in responses to requests with `wait_ms`. */
const confirmation = z.object({
  /** Sidecars that have applied the change. */
  confirmed: z.array(z.string()),
  /** Sidecars that reported within the last 30 seconds, but did not confirm in time. */
  missing: z.array(silentSidecar),
  /**
   * Sidecars without a report in the last 30 seconds; the request did not wait for them. A silent
   * sidecar refuses calls once its policies are too old.
   */
  silent: z.array(silentSidecar),
});
export type Confirmation = z.output<typeof confirmation>;

const changedKillSwitch = killSwitchRecord.extend(confirmation.partial().shape);
export type ChangedKillSwitch = z.output<typeof changedKillSwitch>;
const armedKillSwitch = changedKillSwitch.extend({ warnings });

/** The fields that each kind requires, and the fields (`false`) that it must not have. */
const neededByKind = [
  { properties: { kind: { const: 'block_tool' }, mode: false }, required: ['tool'] },
  {
    properties: { kind: { const: 'block_agent' }, tool: false, mode: false },
    required: ['agent_id'],
  },
  { properties: { kind: { const: 'force_mode' } }, required: ['mode'] },
];

const waitMsMax = 10_000;
const confirmationExample = {
  confirmed: ['sc_019a3f6c2b7e7c1f8a5d3e2f1a0b9c8d'],
  missing: [
    {
      sidecar: 'sc_019a3f6c2b7e7c1f8a5d3e2f1a0b9c8e',
      last_seen_at: '2026-07-01T08:59:52.000Z',
    },
  ],
  silent: [],
} as const;
const waiting =
  'With `wait_ms` (0 to 10000) the response waits until every live sidecar has confirmed that it applies the change, at most for that time. A sidecar is live if it is not revoked and reported within 30 seconds. `confirmed` and `missing` list them.';

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
  summary: 'List armed kill switches, newest first',
  description: '`status=all` also lists expired and disarmed ones.',
  permission: 'read',
  // A separate request budget, so that polling dashboards and busy agents do not block operators.
  budgetPerMinute: 600,
  query: z.object({ status: z.enum(['armed', 'all']).default('armed'), limit: pageLimit }),
  success: {
    status: 200,
    description: 'The kill switches.',
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
  summary: 'Arm a kill switch: block a tool or an agent, or force a stricter mode',
  description:
    'Takes effect in every mode, on all decision points, and ends matching streams, tunnels and held calls. `block_tool` requires `tool` (an id or a glob: `*` within a segment, `**` across segments, a lone `*` everything) and accepts `agent_id`. `block_agent` requires `agent_id`. `force_mode` requires `mode` and accepts `tool` and `agent_id`.\n\n' +
    waiting,
  permission: 'runtime.write',
  body: z
    .strictObject({
      kind,
      tool: line(256).regex(/^\S+$/, 'must be a tool id or glob, without spaces').optional(),
      agent_id: agentId.optional(),
      mode: forcedMode.optional(),
      reason: line(1_000),
      expires_at: dateTime.optional(),
      idempotency_key: line(255).optional(),
      wait_ms: z.number().int().min(0).max(waitMsMax).optional(),
    })
    .meta({ anyOf: neededByKind }),
  bodyExample: {
    kind: 'block_tool',
    tool: 'payments.*',
    reason: 'Incident 12',
    expires_at: '2026-07-01T10:00:00.000Z',
    wait_ms: 5_000,
  },
  success: {
    status: 201,
    description:
      'The armed kill switch. The control plane applies it immediately, sidecars within seconds. `warnings` reports a `tool` that matches no registered tool.',
    schema: armedKillSwitch,
    example: { ...recordExample, ...confirmationExample },
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
  summary: 'Disarm a kill switch',
  description: waiting,
  permission: 'runtime.write',
  params: z.object({ id: opaqueId }),
  query: z.object({
    wait_ms: wholeNumber(0, waitMsMax).optional(),
  }),
  success: {
    status: 200,
    description:
      'The kill switch, with the first person who disarmed it and the time. Repeating the request changes nothing.',
    schema: changedKillSwitch,
    example: {
      ...recordExample,
      status: 'disarmed',
      disarmed_by: 'bob',
      disarmed_at: '2026-07-01T09:30:00.000Z',
    },
  },
  errors: ['request.invalid', 'kill_switch.not_found'],
});
