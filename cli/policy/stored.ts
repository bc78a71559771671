import { SettingsError } from '../../shared/base/settings.ts';
import type { Client } from '../../shared/contract/base/client.ts';
import { listPolicies, type PolicyRecord } from '../../shared/contract/policies/policies.ts';

/** The definition id that a command is about: unlike ids of rows, it outlives a push. */
export function oneDefinitionId([id, ...others]: readonly string[]): string {
  if (id !== undefined && others.length === 0) return id;
  throw new SettingsError('Name one policy by the id that its file has, such as refunds.');
}

export interface Stored {
  readonly inForce: PolicyRecord;
  readonly all: readonly PolicyRecord[];
}

/** What is stored of a definition id, of which one policy is in force. */
export async function storedPolicies(client: Client, id: string): Promise<Stored> {
  const { policies } = await client.call(listPolicies);
  const all = policies.filter(({ definition_id }) => definition_id === id);
  const inForce = all.find(({ lifecycle }) => lifecycle === 'published');
  if (inForce !== undefined) return { inForce, all };
  const published = policies.filter(({ lifecycle }) => lifecycle === 'published');
  const ids = published.map(({ definition_id }) => definition_id).join(', ');
  throw new SettingsError(
    `No policy ${id} is in force; there ${ids === '' ? 'is none' : `are: ${ids}`}.`,
  );
}
