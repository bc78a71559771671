import { SettingsError } from '../../../../shared/base/settings.ts';
import type { Config } from '../../config/config.ts';
import { awsKms } from './aws-kms.ts';
import type { Kms } from './kms.ts';
import { vaultTransit } from './vault-transit.ts';

/** Creates the client of the KMS that `SALLYPORT_KMS_KEY` names. Sends no request. */
export function openKms({
  kmsKey,
  kmsAccess,
}: Pick<Config, 'kmsKey' | 'kmsAccess'>): Kms | undefined {
  if (kmsKey === undefined) return undefined;
  const [, kind, rest = ''] = /^(vault|aws):(.+)$/.exec(kmsKey) ?? [];
  switch (kind) {
    case 'vault':
      return vaultTransit(rest, kmsAccess.token);
    case 'aws':
      return awsKms(rest, kmsAccess);
  }
  throw new SettingsError(
    'SALLYPORT_KMS_KEY must begin with vault: or aws:, as in vault:https://vault.example:8200/v1/transit/keys/sallyport or aws:arn:aws:kms:eu-central-1:111122223333:key/…',
  );
}
