import type { TenantSettings, TenantSettingsChange } from '../../shared/contract/tenants.ts';
import type { Mode } from '../../shared/vocabulary/action.ts';
import { type ChangeNotes, commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import { forgetSetting, readSetting } from '../ledger/privacy/arguments-setting.ts';
import type { Caller } from '../platform/access/caller.ts';
import { signedRows } from '../platform/signed-store/signed-rows.ts';
import type { Verified } from '../platform/signed-store/verified.ts';
import type { Tenant } from '../platform/store/generated/client.ts';
import { lockFor, type Transaction } from '../platform/store/transaction.ts';

export async function readTenantSettings(
  services: Pick<Services, 'db' | 'guard'>,
  { tenantId }: Caller,
): Promise<TenantSettings> {
  const tenant = await signedRows(services, 'tenant').findExisting({ where: { id: tenantId } });
  return settingsOf(services.db, tenant);
}

/**
 * Changes the given settings and keeps the others. Later decisions use the changed settings, and
 * sidecars receive them.
 */
export async function changeTenantSettings(
  services: Services,
  { tenantId, principal }: Caller,
  change: TenantSettingsChange,
): Promise<TenantSettings> {
  const { result } = await commitChange(services, tenantId, async (tx, notes) => {
    await lockFor(tx, tenantId, 'tenant settings');
    const tenant = await changeTenant(notes, tenantId, change);
    await changeKeptArguments(tx, { tenantId, change, by: principal, nowMs: services.clock.now() });
    await notes.event({
      type: 'tenant.settings_written',
      chainId: 'tenant:settings',
      data: { by: principal, ...change },
    });
    notes.sections('tenant');
    return settingsOf(tx, tenant);
  });
  forgetSetting(services.db, tenantId);
  return result;
}

async function changeTenant(
  notes: ChangeNotes,
  tenantId: string,
  { mode, approval_sla_seconds: approvalSlaSeconds }: TenantSettingsChange,
): Promise<Verified<Tenant>> {
  const tenants = notes.rows('tenant');
  const known = await tenants.findExisting({ where: { id: tenantId } });
  if (mode === undefined && approvalSlaSeconds === undefined) return known;
  return tenants.update(known, {
    ...(mode === undefined ? {} : { mode }),
    ...(approvalSlaSeconds === undefined ? {} : { approvalSlaSeconds }),
  });
}

interface KeptArgumentsChange {
  readonly tenantId: string;
  readonly change: TenantSettingsChange;
  readonly by: string;
  readonly nowMs: number;
}

async function changeKeptArguments(
  tx: Transaction,
  { tenantId, change, by, nowMs }: KeptArgumentsChange,
): Promise<void> {
  const { evidence_arguments, sensitive_fields } = change;
  if (evidence_arguments === undefined && sensitive_fields === undefined) return;
  const before = await readSetting(tx, tenantId);
  const fields = {
    arguments: evidence_arguments ?? before.keep,
    sensitiveFields: [...new Set(sensitive_fields ?? before.sensitiveFields)],
    updatedBy: by,
    updatedAt: new Date(nowMs),
  };
  await tx.evidenceSetting.upsert({
    where: { tenantId },
    create: { tenantId, ...fields },
    update: fields,
  });
}

async function settingsOf(
  db: Pick<Transaction, 'evidenceSetting'>,
  tenant: Verified<Tenant>,
): Promise<TenantSettings> {
  const { keep, sensitiveFields } = await readSetting(db, tenant.id);
  return {
    // The cast is safe, because the column's constraint allows no other value.
    mode: tenant.mode as Mode,
    approval_sla_seconds: tenant.approvalSlaSeconds,
    evidence_arguments: keep,
    sensitive_fields: [...sensitiveFields],
  };
}
