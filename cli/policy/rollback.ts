import { parseArgs } from 'node:util';
import { SettingsError } from '../../shared/base/settings.ts';
import type { Client } from '../../shared/contract/base/client.ts';
import {
  type PolicyRecord,
  updatePolicy,
  versionPolicy,
} from '../../shared/contract/policies/policies.ts';
import { apiClient, apiOptions } from '../api-client.ts';
import { say, sayJson } from './say.ts';
import { oneDefinitionId, type Stored, storedPolicies } from './stored.ts';

/**
 * `sallyport policy rollback`: puts in force again what was in force before, without its file and
 * without lint, which an emergency need not wait for: it was in force already.
 */
export async function rollback(args: string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args,
    options: { ...apiOptions, to: { type: 'string' }, 'dry-run': { type: 'boolean' } },
    allowPositionals: true,
  });
  const id = oneDefinitionId(positionals);
  const client = apiClient(values);
  const stored = await storedPolicies(client, id);
  const earlier = earlierPolicy(stored, values.to);
  const dryRun = values['dry-run'] === true;
  const published = dryRun ? undefined : await publishAgain(client, stored, earlier);
  if (values.json === true) {
    sayJson({ definition_id: id, from: stored.inForce, as: earlier, published, dry_run: dryRun });
  } else {
    const done = published === undefined ? 'would be as' : `policy ${published.id}, as`;
    say([`${id}: ${done} policy ${earlier.id} was, in place of policy ${stored.inForce.id}`]);
  }
  return 0;
}

function earlierPolicy({ inForce, all }: Stored, to: string | undefined): PolicyRecord {
  const earlier = all
    .filter(({ lifecycle, published_at }) => lifecycle === 'archived' && published_at !== undefined)
    .filter(({ policy_hash }) => policy_hash !== inForce.policy_hash)
    .sort((one, other) => Date.parse(one.archived_at ?? '') - Date.parse(other.archived_at ?? ''));
  const found = to === undefined ? earlier.at(-1) : earlier.find(({ id }) => String(id) === to);
  if (found !== undefined) return found;
  const ids = earlier.map(({ id }) => id).join(', ');
  throw new SettingsError(
    ids === ''
      ? `Nothing else was in force as ${inForce.definition_id} before policy ${inForce.id}.`
      : `--to: must be one of ${ids}, which were in force as ${inForce.definition_id} before.`,
  );
}

/** A draft that an interrupted rollback left is taken up again. */
async function publishAgain(client: Client, { all }: Stored, earlier: PolicyRecord) {
  const left = all.find(
    ({ lifecycle, cloned_from, policy_hash }) =>
      lifecycle === 'draft' && cloned_from === earlier.id && policy_hash === earlier.policy_hash,
  );
  const draft = left ?? (await client.call(versionPolicy, { params: { id: String(earlier.id) } }));
  return client.call(updatePolicy, {
    params: { id: String(draft.id) },
    body: { lifecycle: 'published', expected_policy_hash: earlier.policy_hash },
  });
}
