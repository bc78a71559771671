import { parseArgs } from 'node:util';
import { getEvidenceJwks } from '../../shared/contract/evidence/evidence-export.ts';
import { getCheckpoint } from '../../shared/contract/evidence/evidence-tree.ts';
import { apiClient, apiOptions } from '../api-client.ts';
import { deliver, outputOption } from './output.ts';

const { url, 'key-file': keyFile } = apiOptions;
const options = { ...outputOption, url, 'key-file': keyFile } as const;

/** `sallyport evidence jwks`: the keys that evidence is verified with. */
export async function jwks(args: string[]): Promise<number> {
  const { values } = parseArgs({ args, options });
  const set = await apiClient(values).call(getEvidenceJwks);
  await deliver(once(`${JSON.stringify(set, null, 2)}\n`), values.output);
  return 0;
}

/** `sallyport evidence checkpoint`: what the ledger is now, as a signed note. */
export async function checkpoint(args: string[]): Promise<number> {
  const { values } = parseArgs({ args, options });
  const query = { fresh: 'true', format: 'note' } as const;
  await deliver(await apiClient(values).open(getCheckpoint, { query }), values.output);
  return 0;
}

async function* once(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}
