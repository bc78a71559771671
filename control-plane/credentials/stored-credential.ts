import { z } from 'zod';
import type { HeldCredential } from '../../shared/binding/binding.ts';
import type { CredentialRecord } from '../../shared/contract/credentials.ts';
import type { CredentialModel } from '../platform/store/generated/models/Credential.ts';
import { readColumn } from '../platform/store/read-column.ts';
import type { SealedPlace, Vault } from '../platform/vault/vault.ts';

/**
 * The encrypted form: the secret, and how and where it may be used. The columns of the row repeat
 * these limits for listing only, so a database writer who changes the columns cannot redirect the
 * secret to a different host.
 */
const sealedForm = z.object({
  secret: z.string(),
  inject: z.object({
    in: z.enum(['bearer', 'header', 'basic', 'query']),
    name: z.string().optional(),
    format: z.string().optional(),
  }),
  bind: z.object({ tools: z.array(z.string()), hosts: z.array(z.string()) }),
});
type SealedForm = z.output<typeof sealedForm>;

interface Whose {
  readonly tenantId: string;
  readonly id: string;
  readonly version: number;
}

function placeOf({ tenantId, id, version }: Whose): SealedPlace {
  return { tenantId, purpose: 'credential', id, version };
}

export function sealCredential(vault: Vault, whose: Whose, credential: SealedForm): string {
  return vault.seal(JSON.stringify(credential), placeOf(whose));
}

/** Decrypts the credential of a row; throws `credential.unreadable`. */
export function openCredential(vault: Vault, row: CredentialModel): HeldCredential {
  const text = vault.open(row.sealed, placeOf(row)).toString('utf8');
  return { id: row.id, version: row.version, ...sealedForm.parse(JSON.parse(text)) };
}

/** Metadata of a stored credential as the API shows it, without the secret. */
export function credentialRecordOf(row: CredentialModel): CredentialRecord {
  return {
    id: row.id,
    name: row.name,
    version: row.version,
    inject: readColumn(sealedForm.shape.inject, row.inject, 'credential.inject'),
    bind: { tools: row.tools, hosts: row.hosts },
    created_by: row.createdBy,
    created_at: row.createdAt.toISOString(),
    updated_at: row.updatedAt.toISOString(),
  };
}
