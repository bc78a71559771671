import { z } from 'zod';
import { jsonObject } from './base/fields.ts';
import { operation } from './base/operation.ts';

/**
 * The failure reasons of each control. `insufficient_evidence`: no data shows yet that the control
 * works.
 */
export const controlReasons = {
  any: ['insufficient_evidence', 'check_failed'],
  'CC-1': [
    'policies_unreadable',
    'no_enforcing_policy',
    'mode_not_enforcing',
    'decision_not_enforced',
    'decision_without_policy',
    'decision_policy_unknown',
    'decision_contradicted',
  ],
  'CC-2': ['approval_overdue', 'decision_not_in_ledger', 'decided_by_requester', 'quorum_unmet'],
  'CC-3': ['ledger_damaged', 'evidence_lost', 'verification_stale', 'sealing_stuck'],
  'CC-4': [
    'secret_unreadable',
    'signing_key_old',
    'api_key_old',
    'api_key_without_owner',
    'development_keys',
  ],
  'CC-5': [
    'drift_open',
    'tool_unregistered',
    'tool_not_approved',
    'manifest_unknown',
    'policy_edited',
    'publication_not_in_ledger',
    'forged_rows',
  ],
  'CC-6': ['no_delivery', 'dead_deliveries', 'evidence_trimmed', 'kill_switches_unreadable'],
} as const;

export type ControlReason = (typeof controlReasons)[keyof typeof controlReasons][number];
export const controlIds = ['CC-1', 'CC-2', 'CC-3', 'CC-4', 'CC-5', 'CC-6'] as const;
export type ControlId = (typeof controlIds)[number];

const reason = z.enum(Object.values(controlReasons).flat() as [ControlReason, ...ControlReason[]]);

const finding = z.object({
  reason,
  message: z.string(),
  /** Ids of the affected events, approvals, policies, tools or keys; at most 20. */
  subjects: z.array(z.string()),
  /** Number of affected objects. */
  count: z.number().int(),
  /** How to fix the problem. */
  next_step: z.string(),
});

const control = z.object({
  id: z.enum(controlIds),
  title: z.string(),
  status: z.enum(['pass', 'fail']),
  checked_at: z.string(),
  /** The examined data, as counts, times and ids. */
  evidence: jsonObject,
  /** The reasons for a failure, most severe first; empty if the control passes. */
  findings: z.array(finding),
  /** The related clauses of compliance frameworks. */
  frameworks: z.record(z.string(), z.array(z.string())),
  /** The first step to take; null if the control passes. */
  next_step: z.string().nullable(),
});
export type ControlReport = z.input<typeof control>;

const report = z.object({
  tenant: z.string(),
  status: z.enum(['pass', 'fail']),
  generated_at: z.string(),
  controls: z.array(control),
  summary: z.object({ pass: z.number().int(), fail: z.number().int() }),
  /** A detached JWS (ES256, typ `compliance-report`) over the JCS form of the other members. */
  signature: z.object({
    alg: z.string(),
    kid: z.string(),
    payload_sha256: z.string(),
    jws: z.string(),
  }),
});
export type ComplianceReport = z.input<typeof report>;

export const getCompliance = operation({
  id: 'getCompliance',
  method: 'GET',
  path: '/v1/compliance',
  tag: 'Compliance',
  summary: 'Get the compliance report: six controls with their evidence',
  description:
    'Each control is computed from live data for this request. It fails if no data shows that it works (`insufficient_evidence`), or if the check itself fails (`check_failed`).',
  auth: 'bearer',
  permission: 'evidence.read',
  budgetPerMinute: 60,
  success: {
    status: 200,
    description: 'The signed report; `status` is `pass` if all six controls pass.',
    schema: report,
    example: {
      tenant: 'acme',
      status: 'fail',
      generated_at: '2026-07-01T09:00:00.000Z',
      controls: [
        {
          id: 'CC-2',
          title: 'Human oversight works',
          status: 'fail',
          checked_at: '2026-07-01T09:00:00.000Z',
          evidence: { open: 3, overdue: 1, decided: 42, evidence_event_ids: ['ev_0198c6a8a6f0'] },
          findings: [
            {
              reason: 'approval_overdue',
              message: '1 approval waits past its time.',
              subjects: ['17'],
              count: 1,
              next_step: 'Decide it, or POST /v1/approvals/expire.',
            },
          ],
          frameworks: { soc2: ['CC6.3'], eu_ai_act: ['14'], nist_ai_rmf: ['MANAGE 2.4'] },
          next_step: 'Decide it, or POST /v1/approvals/expire.',
        },
      ],
      summary: { pass: 5, fail: 1 },
      signature: {
        alg: 'ES256',
        kid: 'NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs',
        payload_sha256: `sha256:${'4'.repeat(64)}`,
        jws: 'eyJhbGciOiJFUzI1NiJ9..c2lnbmF0dXJl',
      },
    },
  },
  errors: ['report.signing_unavailable'],
});
