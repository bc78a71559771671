import { z } from 'zod';
import type { Binding } from '../../shared/binding/binding.ts';
import type { BindingRecord } from '../../shared/contract/bindings.ts';
import { canonicalJson } from '../../shared/crypto/jcs.ts';
import type { Services } from '../core/services.ts';
import type { Caller } from '../platform/access/caller.ts';
import type { Forgery } from '../platform/integrity/report-forgery.ts';
import type { BindingModel } from '../platform/store/generated/models/Binding.ts';
import { readColumn } from '../platform/store/read-column.ts';
import type { Vault } from '../platform/vault/vault.ts';

/**
 * Computes the keyed hash of a binding's row. Without this hash, a database writer could send a
 * tool's calls, and their credential, to a different host.
 */
export function bindingMac(
  vault: Pick<Vault, 'mac'>,
  { tenantId, binding }: { readonly tenantId: string; readonly binding: Binding },
): string {
  return vault.mac('binding', canonicalJson({ tenant: tenantId, binding }));
}

// Keeps unknown fields, because the keyed hash covers all of them.
const storedDefinition = z.looseObject({
  name: z.string(),
  tool: z.string().optional(),
  protocol: z.enum(['http', 'mcp', 'passthrough']),
  host: z.string(),
  method: z.string().optional(),
  path: z.string().optional(),
  body: z.enum(['json', 'form', 'none']).optional(),
  resource: z.string().optional(),
  headers: z.array(z.string()).optional(),
  upgrade: z.boolean().optional(),
  upstream: z
    .looseObject({
      url: z.string(),
      method: z.string(),
      headers: z.record(z.string(), z.string()).optional(),
    })
    .optional(),
});

/** Returns the definition in a row, without an integrity check. Use it for comparisons only. */
export function definitionOf({ definition }: Pick<BindingModel, 'definition'>): Binding {
  return readColumn(storedDefinition, definition, 'binding.definition');
}

/** Returns the binding of a row, or undefined if the row fails its integrity check. */
export function bindingOf(row: BindingModel, vault: Pick<Vault, 'mac'>): Binding | undefined {
  const read = storedDefinition.safeParse(row.definition);
  if (!read.success) return undefined;
  const binding: Binding = read.data;
  const isSigned =
    binding.name === row.name && row.mac === bindingMac(vault, { tenantId: row.tenantId, binding });
  return isSigned ? binding : undefined;
}

/** Describes a binding row that failed its integrity check. */
export function bindingForgery({ tenantId, name, definition, mac }: BindingModel): Forgery {
  return { tenantId, table: 'binding', key: name, found: `${canonicalJson(definition)} ${mac}` };
}

/** A stored binding as the API shows it. */
export function bindingRecordOf(row: BindingModel): BindingRecord {
  const binding = definitionOf(row);
  return {
    ...(binding as BindingRecord),
    updated_by: row.updatedBy,
    updated_at: row.updatedAt.toISOString(),
  };
}

/** Returns the tenant's bindings, sorted by name. */
export async function listBindings(
  { db, vault, guard }: Pick<Services, 'db' | 'vault' | 'guard'>,
  { tenantId }: Caller,
): Promise<readonly BindingRecord[]> {
  const rows = await db.binding.findMany({ where: { tenantId }, orderBy: { name: 'asc' } });
  const verified = rows.filter((row) => {
    if (bindingOf(row, vault) !== undefined) return true;
    guard.forged(bindingForgery(row));
    return false;
  });
  return verified.map(bindingRecordOf);
}
