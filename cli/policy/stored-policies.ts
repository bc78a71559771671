import { SettingsError } from '../../shared/base/settings.ts';
import type { Client } from '../../shared/contract/base/client.ts';
import { listPolicies, type PolicyRecord } from '../../shared/contract/policies/policies.ts';
import type { PolicyDefinition } from '../../shared/policy/language/definition.ts';
import { parsePolicy } from '../../shared/policy/language/validate.ts';

export interface PublishedPolicy {
  readonly record: PolicyRecord;
  readonly definition: PolicyDefinition;
}

/** All published policies. */
export async function publishedPolicies(client: Client): Promise<readonly PublishedPolicy[]> {
  const { policies } = await client.call(listPolicies, { query: { lifecycle: 'published' } });
  return policies.map((record) => ({ record, definition: parsePolicy(record.rules_json) }));
}

/** The stored policies with one definition id, of which one is published. */
export interface StoredPolicies {
  readonly published: PolicyRecord;
  readonly all: readonly PolicyRecord[];
}

/**
 * Finds policies by their definition id, which stays the same across pushes, unlike the ids of
 * rows.
 */
export async function storedPolicies(client: Client, id: string): Promise<StoredPolicies> {
  const { policies } = await client.call(listPolicies);
  const all = policies.filter(({ definition_id }) => definition_id === id);
  const published = all.find(({ lifecycle }) => lifecycle === 'published');
  if (published !== undefined) return { published, all };
  const ids = policies
    .filter(({ lifecycle }) => lifecycle === 'published')
    .map(({ definition_id }) => definition_id)
    .join(', ');
  throw new SettingsError(
    ids === ''
      ? `Policy ${id} is not published; no policy is. Publish it with \`sallyport policy push --publish\`.`
      : `Policy ${id} is not published. Use the id of a published policy: ${ids}.`,
  );
}
