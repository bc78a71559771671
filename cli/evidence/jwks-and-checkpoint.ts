import { getEvidenceJwks } from '../../shared/contract/evidence/evidence-export.ts';
import { getCheckpoint } from '../../shared/contract/evidence/evidence-tree.ts';
import { type ApiOptions, apiClient } from '../support/api-client.ts';
import { writeOutput } from './write-output.ts';

interface Options extends ApiOptions {
  readonly output?: string;
}

/** `sallyport evidence jwks`. */
export async function jwks(options: Options): Promise<number> {
  const set = await apiClient(options).call(getEvidenceJwks);
  await writeOutput(oneChunk(`${JSON.stringify(set, null, 2)}\n`), options.output);
  return 0;
}

/** `sallyport evidence checkpoint`: a signed note (C2SP). */
export async function checkpoint(options: Options): Promise<number> {
  const query = { fresh: 'true', format: 'note' } as const;
  await writeOutput(await apiClient(options).open(getCheckpoint, { query }), options.output);
  return 0;
}

async function* oneChunk(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}
