import { SettingsError } from '../../shared/base/settings.ts';
import { exportEvidence } from '../../shared/contract/evidence/evidence-export.ts';
import type { ExportStatement, exportFormats } from '../../shared/ledger/bundle/statement.ts';
import { readTrailer, trailerBytesMax } from '../../shared/ledger/bundle/trailer.ts';
import type { SiemDialect } from '../../shared/ledger/siem/dialects.ts';
import { type ApiOptions, apiClient } from '../support/api-client.ts';
import { counted, printable } from '../support/terminal.ts';
import { describeFilters, type FilterOptions, filterQuery } from './filters.ts';
import { writeOutput } from './write-output.ts';

interface Options extends ApiOptions, FilterOptions {
  readonly format: (typeof exportFormats)[number];
  readonly dialect?: SiemDialect;
  readonly output?: string;
}

/** `sallyport evidence export`. */
export async function exportEvents(options: Options): Promise<number> {
  const { format, dialect, output } = options;
  const query = { format, ...(dialect && { dialect }), ...filterQuery(options) };
  const end = new ExportEnd();
  const parts = await apiClient(options).open(exportEvidence, { query });
  await writeOutput(end.watch(parts), output);
  const statement = end.statement();
  if (statement === undefined) {
    throw new SettingsError(
      'The export is incomplete: its signed statement is missing. Export again.',
    );
  }
  // The summary is printed to standard error, because the export may be written to standard output.
  for (const line of summary(statement, options)) console.error(printable(line));
  return 0;
}

function summary({ events, filters }: ExportStatement, { output, agent }: Options): string[] {
  const lines = [
    `Wrote ${counted(events, 'event')}${output === undefined ? '' : ` to ${output}`}.`,
  ];
  const narrowed = describeFilters(filters);
  if (events > 0 || narrowed === '') return lines;
  lines.push(`Warning: no event matched the filter: ${narrowed}.`);
  if (agent !== undefined && !/^[1-9]\d*$/.test(agent)) {
    lines.push(
      `Warning: --agent: "${agent}" is not the id of a registered agent; ids are numbers, as in --agent 7.`,
    );
  }
  return lines;
}

const headBytes = 64;

/**
 * Forwards an export unchanged, and keeps its first and last bytes, which contain the signed
 * statement.
 */
class ExportEnd {
  #head: Uint8Array = new Uint8Array();
  #tail: Uint8Array[] = [];
  #tailBytes = 0;

  async *watch(parts: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const part of parts) {
      if (this.#head.length < headBytes) {
        this.#head = Buffer.concat([this.#head, part.subarray(0, headBytes)]);
      }
      this.#keep(part);
      yield part;
    }
  }

  #keep(part: Uint8Array): void {
    this.#tail.push(part);
    this.#tailBytes += part.length;
    let first = this.#tail[0] ?? part;
    while (this.#tailBytes - first.length >= trailerBytesMax) {
      this.#tail.shift();
      this.#tailBytes -= first.length;
      first = this.#tail[0] ?? part;
    }
  }

  /** The signed statement of the export; undefined if the export is incomplete. */
  statement(): ExportStatement | undefined {
    const head = Buffer.from(this.#head).toString('utf8');
    return readTrailer(Buffer.concat(this.#tail), head)?.statement;
  }
}
