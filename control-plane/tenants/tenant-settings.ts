import type { TenantSettings, TenantSettingsChange } from '../../shared/contract/tenants.ts';
import type { Mode } from '../../shared/vocabulary/action.ts';
import { commitChange } from '../core/commit-change.ts';
import type { Services } from '../core/services.ts';
import { forgetSetting, readSetting } from '../ledger/privacy/arguments-setting.ts';
import type { Caller } from '../platform/access/caller.ts';
import { lockFor, type Transaction } from '../platform/store/transaction.ts';

export async function readTenantSettings(
  { db, guard }: Pick<Services, 'db' | 'guard'>,
  { tenantId }: Caller,
): Promise<TenantSettings> {
  guard.assert('tenant', await db.tenant.findUniqueOrThrow({ where: { id: tenantId } }));
  return settingsOf(db, tenantId);
}

/**
 * Changes the given settings and keeps the others. They apply to decisions from now on, and
 * sidecars receive them.
 */
export async function changeTenantSettings(
  services: Services,
  { tenantId, principal }: Caller,
  change: TenantSettingsChange,
): Promise<TenantSettings> {
  const { result } = await commitChange(services, tenantId, async (tx, notes) => {
    await lockFor(tx, tenantId, 'tenant settings');
    const { mode, approval_sla_seconds: approvalSlaSeconds } = change;
    if (mode !== undefined || approvalSlaSeconds !== undefined) {
      const where = { id: tenantId };
      const known = await tx.tenant.findUniqueOrThrow({ where });
      notes.assertSigned('tenant', known);
      const data = {
        ...(mode === undefined ? {} : { mode }),
        ...(approvalSlaSeconds === undefined ? {} : { approvalSlaSeconds }),
      };
      await tx.tenant.update({ where, data });
      // Signs the verified values plus the change and nothing that was written in between.
      await notes.signed('tenant', { ...known, ...data });
    }
    await changeKeptArguments(tx, { tenantId, change, by: principal, nowMs: services.clock.now() });
    await notes.event({
      type: 'tenant.settings_written',
      chainId: 'tenant:settings',
      data: { by: principal, ...change },
    });
    notes.sections('tenant');
    return settingsOf(tx, tenantId);
  });
  forgetSetting(services.db, tenantId);
  return result;
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
  db: Pick<Transaction, 'tenant' | 'evidenceSetting'>,
  tenantId: string,
): Promise<TenantSettings> {
  const tenant = await db.tenant.findUniqueOrThrow({ where: { id: tenantId } });
  const { keep, sensitiveFields } = await readSetting(db, tenantId);
  return {
    // The column's constraint allows no other value.
    mode: tenant.mode as Mode,
    approval_sla_seconds: tenant.approvalSlaSeconds,
    evidence_arguments: keep,
    sensitive_fields: [...sensitiveFields],
  };
}
