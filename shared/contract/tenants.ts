import { z } from 'zod';
import { modes } from '../vocabulary/action.ts';
import { named } from './base/json-schema.ts';
import { operation } from './base/operation.ts';
import { line } from './base/schemas.ts';

const shared = { tag: 'Tenant', auth: 'bearer' } as const;

const settings = z.object({
  /** How decisions are enforced: see `mode` of a preflight. */
  mode: z.enum(modes),
  /** How long a human has to decide, where the rule does not say. */
  approval_sla_seconds: z.number().int().min(1).max(2_592_000),
  /** `digest`: a salted digest and the shape. `redacted`: beside these, encrypted, what redaction leaves. */
  evidence_arguments: z.enum(['digest', 'redacted']),
  /** Names or dotted paths of arguments whose values are never kept, beside those known as sensitive. */
  sensitive_fields: z.array(line(200)).max(100),
});
named('TenantSettings', settings);
export type TenantSettings = z.output<typeof settings>;

const change = z
  .strictObject(settings.shape)
  .partial()
  .refine((named) => Object.keys(named).length > 0, { message: 'must name a setting to change' })
  .meta({ minProperties: 1 });
export type TenantSettingsChange = z.output<typeof change>;

const example = {
  mode: 'enforce' as const,
  approval_sla_seconds: 3600,
  evidence_arguments: 'redacted' as const,
  sensitive_fields: ['customer.notes', 'salary'],
};

export const getTenantSettings = operation({
  ...shared,
  id: 'getTenantSettings',
  method: 'GET',
  path: '/v1/tenant/settings',
  summary: 'How the tenant decides, and what it keeps of the arguments of calls',
  permission: 'read',
  success: { status: 200, description: 'The settings in force.', schema: settings, example },
  errors: [],
});

export const changeTenantSettings = operation({
  ...shared,
  id: 'changeTenantSettings',
  method: 'PATCH',
  path: '/v1/tenant/settings',
  summary: 'Change how the tenant decides, or what it keeps',
  description:
    'What is not named stays. Holds for decisions from now on, at sidecars as soon as they hear of it. Arguments that are kept already stay until they are erased.',
  permission: 'settings.write',
  body: change,
  bodyExample: { evidence_arguments: 'redacted', sensitive_fields: ['customer.notes', 'salary'] },
  success: { status: 200, description: 'The settings now in force.', schema: settings, example },
  errors: ['args.schema_invalid'],
});
