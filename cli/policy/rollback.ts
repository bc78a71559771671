import { SettingsError } from '../../shared/base/settings.ts';
import type { Client } from '../../shared/contract/base/client.ts';
import {
  type PolicyRecord,
  updatePolicy,
  versionPolicy,
} from '../../shared/contract/policies/policies.ts';
import { type ApiOptions, apiClient } from '../support/api-client.ts';
import { printJson, printLines } from '../support/terminal.ts';
import { type StoredPolicies, storedPolicies } from './stored-policies.ts';

interface Options extends ApiOptions {
  readonly to?: string;
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

/**
 * `sallyport policy rollback`: publishes an earlier published version again. Needs no file and runs
 * no lint, so that it is fast in an emergency.
 */
export async function rollback(id: string, options: Options): Promise<number> {
  const client = apiClient(options);
  const stored = await storedPolicies(client, id);
  const earlier = earlierPolicy(stored, options.to);
  const dryRun = options.dryRun === true;
  const published = dryRun ? undefined : await publishAgain(client, stored, earlier);
  if (options.json === true) {
    printJson({
      definition_id: id,
      from: stored.published,
      as: earlier,
      published,
      dry_run: dryRun,
    });
  } else {
    const change = `the content of policy ${earlier.id} replaces policy ${stored.published.id}`;
    printLines([
      published === undefined
        ? `${id}: dry run, ${change}`
        : `${id}: published policy ${published.id}, ${change}`,
    ]);
  }
  return 0;
}

function earlierPolicy({ published, all }: StoredPolicies, to: string | undefined): PolicyRecord {
  const earlier = all
    .filter(({ lifecycle, published_at }) => lifecycle === 'archived' && published_at !== undefined)
    .filter(({ policy_hash }) => policy_hash !== published.policy_hash)
    .sort((one, other) => Date.parse(one.archived_at ?? '') - Date.parse(other.archived_at ?? ''));
  const found = to === undefined ? earlier.at(-1) : earlier.find(({ id }) => String(id) === to);
  if (found !== undefined) return found;
  const ids = earlier.map(({ id }) => id).join(', ');
  const id = published.definition_id;
  throw new SettingsError(
    ids === ''
      ? `Policy ${id} has no earlier published version than policy ${published.id}.`
      : `--to: policy ${to} is not an earlier published version of ${id}; use one of ${ids}.`,
  );
}

/** Publishes a new version with the earlier content; continues with the draft of an interrupted rollback. */
async function publishAgain(client: Client, { all }: StoredPolicies, earlier: PolicyRecord) {
  const interrupted = all.find(
    ({ lifecycle, cloned_from, policy_hash }) =>
      lifecycle === 'draft' && cloned_from === earlier.id && policy_hash === earlier.policy_hash,
  );
  const draft =
    interrupted ?? (await client.call(versionPolicy, { params: { id: String(earlier.id) } }));
  return client.call(updatePolicy, {
    params: { id: String(draft.id) },
    body: { lifecycle: 'published', expected_policy_hash: earlier.policy_hash },
  });
}
