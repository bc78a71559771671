import { z } from 'zod';
import { policyLimits } from '../policy/language/definition-limits.ts';
import { grantBounds, grantScopes } from '../vocabulary/grant-terms.ts';
import {
  goal,
  jsonObject,
  name,
  resourceId,
  riskTier,
  rowIdParam,
  text,
  toolId,
  userId,
} from './base/fields.ts';
import { operation } from './base/operation.ts';
import { wholeNumber } from './base/schemas.ts';
import { bySidecar, sidecarExample } from './sidecars.ts';
import { spoolRecordMax } from './spool-record.ts';

const digest = z.string().regex(/^sha256:[0-9a-f]{64}$/);

const ledgerAcknowledgement = z.object({
  position: z.number().int(),
  tree_root: z.string(),
  jws: z.string(),
});

const spoolPosition = z.object({ record: z.number().int().min(0), hash: z.string() });

export const uploadEvidence = operation({
  ...bySidecar,
  id: 'uploadEvidence',
  method: 'POST',
  path: '/v1/sidecars/evidence',
  summary: 'Upload spool records, in order and at least once',
  description:
    'The first line is `{"segment": …}`, a compact JWS by the sidecar’s key over `{sidecar, after, last}`, and the newest `ledger` from an earlier response. The other lines are the records, byte for byte as in the spool. An unreadable record is quarantined and does not block the others.',
  // Three MiB of records, and room for the other lines.
  bodyBytesMax: 4 * 1024 ** 2,
  bodyType: 'ndjson',
  /**
   * The head (shared/ledger/spool-head.ts), then the record lines
   * (shared/contract/spool-record.ts).
   */
  body: z.array(z.string().max(spoolRecordMax)).min(2).max(1001),
  bodyExample: [
    '{"segment":"eyJ…"}',
    `{"event":{"agent_id":"7","chain_id":"agent:7","data":{"args_shape":{"amount":"number"}},"decision":"allow","id":"ev_019a3f6c2b7e7c1f8a5d3e2f1a0b9c8d","occurred_at":"2026-11-20T10:00:00.000Z","reason_code":"refund.small_in_scope","resource":"payment:pay_81","source":"sidecar:${sidecarExample}","tool":"payments.refund","type":"decision","user_id":"user_12"},"salt":"MDEyMzQ1Njc4OWFiY2RlZg=="}`,
  ],
  success: {
    status: 200,
    description:
      'The ledger has all records up to `acked`, as events or as quarantined records, so the sidecar may delete them. `ledger` is the current end of the ledger. If a later ledger does not contain it, uploads are refused.',
    schema: z.object({
      sealed: z.number().int(),
      acked: spoolPosition,
      ledger: ledgerAcknowledgement.optional(),
    }),
    example: {
      sealed: 1,
      acked: { record: 813, hash: '6c'.repeat(32) },
      ledger: {
        position: 8_130,
        tree_root: `sha256:${'7d'.repeat(32)}`,
        jws: 'eyJhbGciOi…..MEUC…',
      },
    },
  },
  errors: [
    'args.schema_invalid',
    'evidence.event_invalid',
    'evidence.rolled_back',
    'evidence.seal_failed',
    'sidecar.revoked',
  ],
});

export const openSidecarApproval = operation({
  ...bySidecar,
  id: 'openSidecarApproval',
  method: 'POST',
  path: '/v1/sidecars/approvals',
  summary: 'Open an approval for an action of the sidecar’s agent',
  description:
    'The control plane evaluates the action with its own state. Verdict, reason and rules are its own; terms and risk are the stricter of its own and the sidecar’s. An action that it denies is refused (`approval.action_denied`).',
  body: z.strictObject({
    tool: toolId,
    resource: resourceId,
    args: jsonObject,
    /** Members of an MCP message, other than its arguments, that decisions evaluate. */
    mcp: jsonObject.optional(),
    goal: goal.optional(),
    /**
     * With `passport_jti`: the user of the presented passport, if it differs from the enrolment's
     * user.
     */
    user_id: userId.optional(),
    passport_jti: name(256).optional(),
    /** The presented passport, compact JWS; absent if the call uses the lease. */
    passport: text(65_536).optional(),
    /**
     * `reason_code` and the members after it are the sidecar's verdict. Only `risk_tier` and
     * `terms` are used, and only where they are stricter than the control plane's own verdict.
     */
    reason_code: name(256),
    matched_rules: z.array(text(512)).max(10_000),
    policy_hash: digest.optional(),
    manifest_hash: digest.optional(),
    risk_tier: riskTier,
    terms: z.strictObject({
      // Accepts all terms that policies can require, because refusing them here would deny the
      // action.
      channels: z.array(name(policyLimits.channelLength)).max(policyLimits.rules),
      minRole: name(64),
      quorum: z.number().int().min(1).max(policyLimits.quorum),
      slaSeconds: z.number().int().min(1).max(policyLimits.slaSeconds).optional(),
      grant: z
        .strictObject({
          uses: z.number().int().min(1).max(grantBounds.usesMax),
          ttlSeconds: z
            .number()
            .int()
            .min(grantBounds.ttlSecondsMin)
            .max(grantBounds.ttlSecondsMax),
          scope: z.enum(grantScopes),
        })
        .optional(),
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
  errors: [
    'args.schema_invalid',
    'approval.invalid',
    'approval.action_denied',
    'approval.too_many_open',
    'tool.manifest_changed',
    'sidecar.revoked',
  ],
});

export const spendSidecarApproval = operation({
  ...bySidecar,
  id: 'spendSidecarApproval',
  method: 'POST',
  path: '/v1/sidecars/approvals/{id}/spend',
  summary:
    'Consume a granted approval, or one use of a standing grant, directly before performing the action',
  params: rowIdParam,
  success: {
    status: 200,
    description: 'The approval, or this use of it, is consumed for every other caller.',
    schema: z.object({ spent: z.literal(true), event_hash: z.string() }),
    example: { spent: true, event_hash: `sha256:${'4f'.repeat(32)}` },
  },
  errors: [
    'approval.not_found',
    'approval.used',
    'approval.grant_revoked',
    'approval.invalid',
    'approval.action_denied',
    'approval.expired',
    'sidecar.revoked',
  ],
});

export const getSidecarUsage = operation({
  ...bySidecar,
  id: 'getSidecarUsage',
  method: 'GET',
  path: '/v1/sidecars/usage',
  summary: 'Usage of the sidecar’s agent elsewhere, by tool and minute, for budgets',
  description:
    'Counts the sealed decisions of the last 25 hours by other sidecars, the control plane and earlier runs, without those of the requesting run. `after` is the position from the previous response; changed buckets are returned completely. A response with `after` 0 replaces all earlier counts.',
  query: z.object({
    run: z.string().regex(/^[\w-]{1,64}$/, 'must be 1 to 64 letters, digits, _ or -'),
    after: wholeNumber(0, 999_999_999_999_999).default(0),
  }),
  success: {
    status: 200,
    description:
      'Buckets by minute since the epoch, and the ledger position up to which they count.',
    schema: z.object({
      position: z.number().int(),
      after: z.number().int(),
      buckets: z
        .array(
          z.object({
            tool: z.string(),
            minute: z.number().int(),
            calls: z.number(),
            sums: z.record(z.string(), z.number()),
          }),
        )
        .readonly(),
    }),
    example: {
      position: 813,
      after: 790,
      buckets: [{ tool: 'payments.refund', minute: 29_919_480, calls: 2, sums: { amount: 60 } }],
    },
  },
  errors: ['request.invalid', 'sidecar.revoked'],
});

export const getKeySuccession = operation({
  ...bySidecar,
  id: 'getKeySuccession',
  method: 'GET',
  path: '/v1/sidecars/key-succession',
  summary: 'Succession statements of the key for sections and heartbeats',
  success: {
    status: 200,
    description:
      'Compact JWS, oldest first; each is signed by the previous key and names the next.',
    schema: z.object({ statements: z.array(z.string()) }),
    example: { statements: ['eyJhbGciOiJFZERTQSIs…'] },
  },
  errors: ['sidecar.revoked'],
});

export const claimSidecarPassport = operation({
  ...bySidecar,
  id: 'claimSidecarPassport',
  method: 'POST',
  path: '/v1/sidecars/passports/claim',
  summary: 'Claim a passport durably, for high and critical risk',
  body: z.strictObject({ jti: name(256) }),
  bodyExample: { jti: 'pp_019a3f6c2b7e7c1f8a5d3e2f1a0b9c8d' },
  success: {
    status: 200,
    description: 'Whether this caller claimed it first.',
    schema: z.object({ claimed: z.boolean() }),
    example: { claimed: true },
  },
  errors: ['args.schema_invalid', 'passport.agent_mismatch', 'sidecar.revoked'],
});
