import type { TenantSettings } from '../../../shared/contract/privacy.ts';
import type { ArgumentsSetting } from '../../../shared/evidence/arguments-setting.ts';
import { commitChange } from '../../events.ts';
import type { Caller } from '../../http/route.ts';
import type { Services } from '../../services.ts';
import { forgetSetting, readSetting } from './arguments-setting.ts';

export async function readTenantSettings(
  { db }: Pick<Services, 'db'>,
  { tenantId }: Caller,
): Promise<TenantSettings> {
  return settingsRecord(await readSetting(db, tenantId));
}

/** Writes the settings, whole: decisions from now on go by them, and sidecars hear of them. */
export async function putTenantSettings(
  services: Services,
  { tenantId, principal }: Caller,
  settings: TenantSettings,
): Promise<TenantSettings> {
  const { evidence_arguments, sensitive_fields } = settings;
  const sensitiveFields = [...new Set(sensitive_fields)];
  await commitChange(services, tenantId, async (tx, notes) => {
    const fields = {
      arguments: evidence_arguments,
      sensitiveFields,
      updatedBy: principal,
      updatedAt: new Date(services.clock.now()),
    };
    await tx.evidenceSetting.upsert({
      where: { tenantId },
      create: { tenantId, ...fields },
      update: fields,
    });
    await notes.event({
      type: 'tenant.settings_written',
      chainId: 'tenant:settings',
      data: { by: principal, evidence_arguments, sensitive_fields: sensitiveFields },
    });
    notes.sections('tenant');
  });
  forgetSetting(services.db, tenantId);
  return settingsRecord({ keep: evidence_arguments, sensitiveFields });
}

function settingsRecord({ keep, sensitiveFields }: ArgumentsSetting): TenantSettings {
  return { evidence_arguments: keep, sensitive_fields: [...sensitiveFields] };
}
