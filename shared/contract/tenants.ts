import { z } from 'zod';
import { modes } from '../vocabulary/action.ts';
import { named } from './base/json-schema.ts';
import { operation } from './base/operation.ts';
import { line } from './base/schemas.ts';

const shared = { tag: 'Tenant', auth: 'bearer' } as const;

const settings = z.object({
  /** Enforcement mode of decisions; see `mode` of a preflight. */
  mode: z.enum(modes),
  /** Time for a human decision, if the rule does not set it. */
  approval_sla_seconds: z.number().int().min(1).max(2_592_000),
  /**
   * `digest`: a salted digest and the shape. `redacted`: additionally the redacted arguments,
   * encrypted.
   */
  evidence_arguments: z.enum(['digest', 'redacted']),
  /**
   * Names or dotted paths of arguments whose values are never stored, in addition to the built-in
   * list.
   */
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
  summary: 'Get the tenant’s settings',
  permission: 'read',
  success: { status: 200, description: 'The current settings.', schema: settings, example },
  errors: [],
});

export const changeTenantSettings = operation({
  ...shared,
  id: 'changeTenantSettings',
  method: 'PATCH',
  path: '/v1/tenant/settings',
  summary: 'Change the tenant’s settings',
  description:
    'Omitted settings are unchanged. Changes apply to later decisions, at sidecars after their next synchronisation. Arguments that are already stored are kept until they are erased.',
  permission: 'settings.write',
  body: change,
  bodyExample: { evidence_arguments: 'redacted', sensitive_fields: ['customer.notes', 'salary'] },
  success: { status: 200, description: 'The changed settings.', schema: settings, example },
  errors: ['args.schema_invalid'],
});
