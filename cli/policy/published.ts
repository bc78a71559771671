import type { Client } from '../../shared/contract/client.ts';
import { listPolicies, type PolicyRecord } from '../../shared/contract/policies.ts';
import type { PolicyDefinition } from '../../shared/policy/definition.ts';
import { parsePolicy } from '../../shared/policy/validate.ts';

export interface PublishedPolicy {
  readonly record: PolicyRecord;
  readonly definition: PolicyDefinition;
}

/** The policies in force. */
export async function publishedPolicies(client: Client): Promise<readonly PublishedPolicy[]> {
  const { policies } = await client.call(listPolicies, { query: { lifecycle: 'published' } });
  return policies.map((record) => ({ record, definition: parsePolicy(record.rules_json) }));
}
