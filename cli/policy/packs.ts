import { installPolicyPack, listPolicyPacks } from '../../shared/contract/policies/policy-packs.ts';
import type { Mode } from '../../shared/vocabulary/action.ts';
import { type ApiOptions, apiClient } from '../support/api-client.ts';
import { printJson, printLines } from '../support/terminal.ts';

interface Options extends ApiOptions {
  readonly json?: boolean;
}

/** `sallyport policy packs`. */
export async function packs(options: Options): Promise<number> {
  const answer = await apiClient(options).call(listPolicyPacks);
  if (options.json === true) printJson(answer);
  else printLines(answer.packs.flatMap(({ pack, description }) => [pack, `    ${description}`]));
  return 0;
}

interface InstallOptions extends Options {
  readonly publish: boolean;
  readonly mode?: Mode;
}

/** `sallyport policy install`. */
export async function install(pack: string, options: InstallOptions): Promise<number> {
  const { publish, mode, json } = options;
  const answer = await apiClient(options).call(installPolicyPack, {
    body: { pack, publish, ...(mode === undefined ? {} : { mode }) },
  });
  if (json === true) {
    printJson(answer);
    return 0;
  }
  printLines(
    answer.policies.map(({ outcome, policy: { definition_id, id, lifecycle } }) => {
      const isPublished = outcome === 'created' && lifecycle !== 'draft';
      const result = isPublished ? 'created and published' : outcome;
      return `${definition_id}: ${result}, policy ${id}${lifecycle === 'draft' ? ', a draft' : ''}`;
    }),
  );
  return 0;
}
