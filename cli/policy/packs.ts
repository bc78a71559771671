import { parseArgs } from 'node:util';
import { SettingsError } from '../../shared/base/settings.ts';
import { installPolicyPack, listPolicyPacks } from '../../shared/contract/policies/policy-packs.ts';
import { modes } from '../../shared/vocabulary/action.ts';
import { apiClient, apiOptions } from '../api-client.ts';
import { say, sayJson } from './say.ts';

/** `sallyport policy packs`: the curated policies, and what each stops. */
export async function packs(args: string[]): Promise<number> {
  const { values } = parseArgs({ args, options: apiOptions });
  const answer = await apiClient(values).call(listPolicyPacks);
  if (values.json === true) sayJson(answer);
  else say(answer.packs.flatMap(({ pack, description }) => [pack, `    ${description}`]));
  return 0;
}

/** `sallyport policy install`: a pack's policies as drafts, or in force. */
export async function install(args: string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args,
    options: {
      ...apiOptions,
      publish: { type: 'boolean', default: false },
      mode: { type: 'string' },
    },
    allowPositionals: true,
  });
  const [pack, ...others] = positionals;
  if (pack === undefined || others.length > 0) {
    throw new SettingsError('Name one pack; sallyport policy packs tells which there are.');
  }
  const mode = modes.find((one) => one === values.mode);
  if (values.mode !== undefined && mode === undefined) {
    throw new SettingsError(`--mode: must be one of ${modes.join(', ')}.`);
  }
  const { publish, json } = values;
  const answer = await apiClient(values).call(installPolicyPack, {
    body: { pack, publish, ...(mode === undefined ? {} : { mode }) },
  });
  if (json === true) sayJson(answer);
  else {
    say(
      answer.policies.map(({ outcome, policy: { definition_id, id, lifecycle } }) => {
        const done =
          outcome === 'created' && lifecycle !== 'draft' ? 'created and published' : outcome;
        return `${definition_id}: ${done}, policy ${id}${lifecycle === 'draft' ? ', a draft' : ''}`;
      }),
    );
  }
  return 0;
}
