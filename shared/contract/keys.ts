import { z } from 'zod';
import { named } from './base/json-schema.ts';
import { operation } from './base/operation.ts';
import { dateTime, line, opaqueId } from './base/schemas.ts';

export const roles = [
  'owner',
  'admin',
  'developer',
  'approver',
  'auditor',
  'agent',
  'gateway',
] as const;
export type Role = (typeof roles)[number];

export const keyScopes = ['tenant', 'gateway'] as const;
export type KeyScope = (typeof keyScopes)[number];

const shared = { tag: 'Keys', auth: 'bearer' } as const;

/** A key's metadata. The key itself is shown once, in the response that creates it. */
export const keyRecord = z.object({
  id: z.string(),
  name: z.string(),
  role: z.enum(roles),
  scope: z.enum(keyScopes),
  /** The person or service that the key represents. */
  principal: z.string(),
  /** Present for a key that is bound to one agent. */
  agent_id: z.number().int().optional(),
  /** Keyed hash in hex; the only stored form of the key. */
  hash: z.string(),
  start: z.string(),
  last4: z.string(),
  created_by: z.string(),
  created_at: z.string(),
  expires_at: z.string().nullable(),
  last_used_at: z.string().nullable(),
  revoked_at: z.string().nullable(),
});
named('ApiKey', keyRecord);
export type KeyRecord = z.output<typeof keyRecord>;

const keyExample = {
  id: 'key_0198c5f0a1b27c3d8e4f5a6b7c8d9e0f',
  name: 'refund bot',
  role: 'agent',
  scope: 'tenant',
  principal: 'refund bot',
  agent_id: 7,
  hash: '7251715c5998429239e51c3ef1a81cfdaa3ba8648f57722533c4f86fbfa1a36a',
  start: 'apk_0123',
  last4: 'ZVQ0',
  created_by: 'alice',
  created_at: '2026-07-01T09:00:00.000Z',
  expires_at: null,
  last_used_at: null,
  revoked_at: null,
} as const;

export const listKeys = operation({
  ...shared,
  id: 'listKeys',
  method: 'GET',
  path: '/v1/keys',
  summary: 'List the tenant’s API keys (metadata only)',
  permission: 'read',
  success: {
    status: 200,
    description: 'Every key ever created, oldest first. Keys cannot be read back.',
    schema: z.object({ keys: z.array(keyRecord) }),
    example: { keys: [keyExample] },
  },
  errors: [],
});

export const createKey = operation({
  ...shared,
  id: 'createKey',
  method: 'POST',
  path: '/v1/keys',
  summary: 'Create an API key',
  description:
    'A key never has more permissions than the key that creates it. Only owners can choose its `principal` (default: the key’s name); all other callers create keys for their own principal.',
  permission: 'key.write',
  body: z.strictObject({
    name: line(100),
    role: z.enum(roles),
    /** Default: `gateway` for the role `gateway`, otherwise `tenant`. */
    scope: z.enum(keyScopes).optional(),
    principal: line(100).optional(),
    /** Binds the key to one agent; the key cannot act for another agent. */
    agent_id: z.int().min(1).max(2_147_483_647).optional(),
    expires_at: dateTime.optional(),
  }),
  bodyExample: { name: 'refund bot', role: 'agent', agent_id: 7 },
  success: {
    status: 200,
    description: 'The key. It is shown only in this response.',
    schema: keyRecord.extend({ key: z.string() }),
    example: { ...keyExample, key: 'apk_…' },
  },
  errors: ['args.schema_invalid', 'key.role_exceeds_own', 'agent.not_found'],
  accessExample: {
    object: '/v1/agents',
    body: { name: 'other', role: 'agent', agent_id: '{id}' },
  },
});

export const revokeKey = operation({
  ...shared,
  id: 'revokeKey',
  method: 'DELETE',
  path: '/v1/keys',
  summary: 'Revoke an API key',
  description: 'Revoking a revoked key changes nothing. Only owners can revoke an owner’s key.',
  permission: 'key.write',
  budget: 'control',
  body: z.strictObject({ id: opaqueId }),
  bodyExample: { id: keyExample.id },
  success: {
    status: 200,
    description: 'The key is revoked; requests with it are refused.',
    schema: keyRecord,
    example: { ...keyExample, revoked_at: '2026-07-02T09:00:00.000Z' },
  },
  errors: ['args.schema_invalid', 'key.not_found', 'key.role_exceeds_own'],
  accessExample: { object: '/v1/keys', body: { id: '{id}' } },
});

export const rotatablePurposes = [
  'report',
  'export',
  'checkpoint',
  'certificate',
  'passport',
  'sync',
] as const;

export const rotateSigningKey = operation({
  ...shared,
  id: 'rotateSigningKey',
  method: 'POST',
  path: '/v1/keys/signing/rotate',
  summary: 'Rotate a signing key',
  description:
    'Retires the active key and creates a new one; without a body, the ES256 key for reports. Retired keys still verify their signatures and are never deleted. For `sync`, sidecars trust only the active key, and retired keys sign a statement that names their successor.',
  permission: 'key.write',
  body: z.strictObject({ purpose: z.enum(rotatablePurposes).default('report') }).prefault({}),
  bodyExample: { purpose: 'report' },
  success: {
    status: 200,
    description: 'The new active key and the one it replaced.',
    schema: z.object({
      purpose: z.enum(rotatablePurposes),
      alg: z.enum(['EdDSA', 'ES256']),
      active_key_id: z.string(),
      retired_key_id: z.string(),
      rotated_at: z.string(),
    }),
    example: {
      purpose: 'report',
      alg: 'ES256',
      active_key_id: 'kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k',
      retired_key_id: 'oKIywvGUpTVTyxMQ3bwIIeQUudfr_CkLMjCE19ECD-U',
      rotated_at: '2026-07-01T09:00:00.000Z',
    },
  },
  errors: ['args.schema_invalid'],
});
