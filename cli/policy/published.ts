import type { Client } from '../../shared/contract/base/client.ts';
import { listPolicies, type PolicyRecord } from '../../shared/contract/policies/policies.ts';
import type { PolicyDefinition } from '../../shared/policy/language/definition.ts';
import { parsePolicy } from '../../shared/policy/language/validate.ts';

export interface PublishedPolicy {
  readonly record: PolicyRecord;
  readonly definition: PolicyDefinition;
}

/** The policies in force. */
export async function publishedPolicies(client: Client): Promise<readonly PublishedPolicy[]> {
  const { policies } = await client.call(listPolicies, { query: { lifecycle: 'published' } });
  return policies.map((record) => ({ record, definition: parsePolicy(record.rules_json) }));
}
