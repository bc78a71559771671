import { z } from 'zod';
import type { JsonObject } from '../base/json.ts';
import { riskTiers } from '../vocabulary/action.ts';
import { approvalStatuses } from '../vocabulary/tool-record.ts';
import { jsonObject, riskTier } from './base/fields.ts';
import { type Json, named, statedAs } from './base/json-schema.ts';
import { operation } from './base/operation.ts';

const orNull = (...forms: readonly Json[]): Json => ({ anyOf: [...forms, { type: 'null' }] });
const anyText = orNull({ type: 'string' });
const anyObject = orNull({ type: 'object' });
const words = orNull({ type: 'array', items: { type: 'string', minLength: 1 } });

/**
 * A tool's manifest as shared/manifest/normalise.ts accepts it. Unknown members are allowed,
 * because an approval covers everything that a server states about a tool.
 */
const manifest: z.ZodType<JsonObject, JsonObject> = statedAs(
  named('ToolManifest', jsonObject.clone()),
  {
    type: 'object',
    required: ['name'],
    additionalProperties: true,
    properties: {
      name: {
        type: 'string',
        minLength: 1,
        maxLength: 256,
        pattern: '^[^\\u0000-\\u001f\\u007f-\\u009f\\u2028\\u2029*]*$',
      },
      title: anyText,
      description: anyText,
      serverOrigin: anyText,
      protocol: anyText,
      publisherIdentity: anyText,
      publisherVerified: orNull({ type: 'boolean' }),
      inputSchema: anyObject,
      outputSchema: anyObject,
      annotations: anyObject,
      oauthScopes: words,
      sideEffectProfile: words,
      riskTier: orNull({ enum: riskTiers }),
      executionCapability: anyText,
      sensitiveDataExposure: anyText,
    },
  },
);

const drift = z.object({
  class: z.string(),
  reason_code: z.string(),
  severity: z.string(),
  /** JSON pointer into the manifest. */
  path: z.string(),
  message: z.string(),
  /** A sentence for humans: the meaning of the drift, and what to do. */
  sentence: z.string(),
  /** True if the tool must be approved again because of this drift. */
  material: z.boolean(),
});
named('ToolDrift', drift);

const manifestExample = {
  name: 'payments.refund',
  description: 'Refunds a payment',
  inputSchema: {
    type: 'object',
    properties: { amount: { type: 'number' } },
    required: ['amount'],
  },
  sideEffectProfile: ['write'],
  riskTier: 'medium',
};

const driftExample = {
  class: 'risk_tier_raised',
  reason_code: 'tool.risk_tier_raised',
  severity: 'high',
  path: '/riskTier',
  message: 'the risk tier changed from medium to high',
  sentence:
    'The tool is now riskier than when it was approved (/riskTier: the risk tier changed from medium to high); it must be approved again.',
  material: true,
} as const;

export const ingestTool = operation({
  id: 'ingestTool',
  method: 'POST',
  path: '/v1/tools/ingest',
  tag: 'Tools',
  summary: 'Register a tool’s manifest and classify its drift from the approved one',
  auth: 'bearer',
  permission: 'tool.write',
  body: z.strictObject({ manifest }),
  bodyExample: { manifest: manifestExample },
  success: {
    status: 200,
    description: 'The normalised manifest, its hash, the tool’s status and the drift.',
    schema: z.object({
      name: z.string(),
      manifest_hash: z.string(),
      surface_hash: z.string(),
      manifest: jsonObject,
      approval_status: z.enum(approvalStatuses),
      risk_tier: riskTier,
      drift: z.array(drift),
      /** The registered tool that differs from this tool only in its name. */
      renamed_from: z.string().optional(),
      /** The open approval for this version of the tool. */
      approval_request_id: z.string().optional(),
    }),
    example: {
      name: 'payments.refund',
      manifest_hash: `sha256:${'1b'.repeat(32)}`,
      surface_hash: `sha256:${'2c'.repeat(32)}`,
      manifest: manifestExample,
      approval_status: 'reapproval_required',
      risk_tier: 'high',
      drift: [driftExample],
      approval_request_id: '43',
    },
  },
  errors: ['args.schema_invalid'],
});

const toolRecord = z.object({
  name: z.string(),
  approval_status: z.enum(approvalStatuses),
  risk_tier: riskTier,
  manifest_hash: z.string(),
  approved_hash: z.string().nullable(),
  /** Reason code that explains why the tool must be approved again. */
  drift_reason: z.string().nullable(),
  /**
   * Who submitted the current version: a principal, or `sidecar:<id>` for a version seen in a
   * server's response.
   */
  submitted_by: z.string(),
  updated_at: z.string(),
  /** The open approval of the current version. */
  approval_request_id: z.string().optional(),
});
export type ToolRecord = z.infer<typeof toolRecord>;

const recordExample = {
  name: 'mcp.crm.find',
  approval_status: 'reapproval_required',
  risk_tier: 'low',
  manifest_hash: `sha256:${'1b'.repeat(32)}`,
  approved_hash: `sha256:${'0a'.repeat(32)}`,
  drift_reason: 'tool.description_changed',
  submitted_by: 'sidecar:sc_01a1f91f4bd74eab',
  updated_at: '2026-11-21T09:00:00.000Z',
  approval_request_id: '43',
} as const;

export const listTools = operation({
  id: 'listTools',
  method: 'GET',
  path: '/v1/tools',
  tag: 'Tools',
  summary: 'List registered tools by name',
  auth: 'bearer',
  permission: 'read',
  success: {
    status: 200,
    description: 'Every tool with its status and its open approval.',
    schema: z.object({ tools: z.array(toolRecord) }),
    example: { tools: [recordExample] },
  },
  errors: [],
});

export const getTool = operation({
  id: 'getTool',
  method: 'GET',
  path: '/v1/tools/{name}',
  tag: 'Tools',
  summary: 'Get a tool with its approved and its current manifest',
  auth: 'bearer',
  permission: 'read',
  params: z.object({ name: z.string().min(1).max(256) }),
  success: {
    status: 200,
    description: 'The tool, with both manifests and the drift between them.',
    schema: toolRecord.extend({
      manifest: jsonObject,
      /** Null if no version was approved yet. */
      approved_manifest: jsonObject.nullable(),
      drift: z.array(drift),
    }),
    example: {
      ...recordExample,
      manifest: { name: 'mcp.crm.find', description: 'Finds, and sends.' },
      approved_manifest: { name: 'mcp.crm.find', description: 'Finds.' },
      drift: [
        {
          class: 'description_changed',
          reason_code: 'tool.description_changed',
          severity: 'medium',
          path: '/description',
          message: 'the description changed',
          sentence:
            'The model now reads another description of the tool (/description: the description changed); it must be approved again.',
          material: true,
        },
      ],
    },
  },
  errors: ['tool.not_found'],
});

export const diffTools = operation({
  id: 'diffTools',
  method: 'POST',
  path: '/v1/tools/diff',
  tag: 'Tools',
  summary: 'Classify the drift between two manifests without storing them',
  auth: 'bearer',
  permission: 'read',
  body: z.strictObject({ before: manifest, after: manifest }),
  bodyExample: { before: manifestExample, after: { ...manifestExample, riskTier: 'high' } },
  success: {
    status: 200,
    description: 'Each difference, with its class and reason code.',
    schema: z.object({
      before_hash: z.string(),
      after_hash: z.string(),
      material: z.boolean(),
      drift: z.array(drift),
    }),
    example: {
      before_hash: `sha256:${'0a'.repeat(32)}`,
      after_hash: `sha256:${'1b'.repeat(32)}`,
      material: true,
      drift: [driftExample],
    },
  },
  errors: ['args.schema_invalid'],
});
