import { parseArgs } from 'node:util';
import { exportEvidence } from '../../shared/contract/evidence-export.ts';
import { exportFormats } from '../../shared/evidence/bundle/statement.ts';
import { siemDialects } from '../../shared/siem/dialects.ts';
import { apiClient, apiOptions } from '../api-client.ts';
import { filterOptions, readFilters } from './filters.ts';
import { oneOf } from './one-of.ts';
import { deliver, outputOption } from './output.ts';

/** `sallyport evidence export`: the ledger as of now, signed. */
export async function exportEvents(args: string[]): Promise<number> {
  const { url, 'key-file': keyFile } = apiOptions;
  const { values } = parseArgs({
    args,
    options: {
      ...{ url, 'key-file': keyFile },
      ...filterOptions,
      ...outputOption,
      format: { type: 'string', default: 'json' },
      dialect: { type: 'string' },
    },
  });
  const query = {
    format: oneOf('--format', exportFormats, values.format),
    ...(values.dialect && { dialect: oneOf('--dialect', siemDialects, values.dialect) }),
    ...readFilters(values),
  };
  await deliver(await apiClient(values).open(exportEvidence, { query }), values.output);
  return 0;
}
