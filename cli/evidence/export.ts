import { parseArgs } from 'node:util';
import { SettingsError } from '../../shared/base/settings.ts';
import { exportEvidence } from '../../shared/contract/evidence/evidence-export.ts';
import { type ExportStatement, exportFormats } from '../../shared/ledger/bundle/statement.ts';
import { siemDialects } from '../../shared/ledger/siem/dialects.ts';
import { apiClient, apiOptions } from '../api-client.ts';
import { count } from '../policy/say.ts';
import { visible } from '../table.ts';
import { ExportEnd } from './export-end.ts';
import { filterOptions, filtersText, readFilters } from './filters.ts';
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
  const end = new ExportEnd();
  const parts = await apiClient(values).open(exportEvidence, { query });
  await deliver(end.watch(parts), values.output);
  const statement = end.statement();
  if (statement === undefined) {
    throw new SettingsError('The export has no signed statement at its end: export it again.');
  }
  // Standard output may be the export.
  for (const line of summary(statement, values)) console.error(visible(line));
  return 0;
}

interface Given {
  readonly output?: string | undefined;
  readonly agent?: string | undefined;
}

function summary({ events, filters }: ExportStatement, { output, agent }: Given): string[] {
  const lines = [`Wrote ${count(events, 'event')}${output === undefined ? '' : ` to ${output}`}.`];
  const narrowed = filtersText(filters);
  if (events > 0 || narrowed === '') return lines;
  lines.push(`Warning: no event passed the filter: ${narrowed}.`);
  if (agent !== undefined && !/^[1-9]\d*$/.test(agent)) {
    lines.push(
      `Warning: --agent: "${agent}" is no id of a registered agent: those are numbers, as in --agent 7.`,
    );
  }
  return lines;
}
