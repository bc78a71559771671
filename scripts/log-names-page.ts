import { logFields } from './log-fields.ts';
import { collectLogLines, type LogLine, type ProgramName } from './log-lines.ts';
import { codes, page, table } from './markdown.ts';

const introduction = `Every log line of the programs, collected from the source. Each line is one JSON object on
standard error. The message is \`msg\`; a part in braces is filled in at run time. Each line also has \`level\` (20
debug, 30 info, 40 warn, 50 error), \`time\` (milliseconds since the Unix epoch), \`pid\`, \`hostname\` and \`name\`
(\`sallyport-control-plane\`, \`sallyport-sidecar\` or \`sallyport-injector\`). \`SALLYPORT_LOG_LEVEL\` sets the lowest level that is
written. Messages may be reworded between versions: alert on [metrics](metrics.md), and use this page to look up
a line that you found. The fields of \`decision\` keep their names; [operate](../how-to/operate.md#logs) describes
them.`;

const titles: Readonly<Record<ProgramName, string>> = {
  'control plane': 'Control plane',
  sidecar: 'Sidecar',
  injector: 'Injector',
  both: 'All programs',
};

/** `docs/reference/log-names.md`, from the source of the programs. */
export function logNamesPage(): string {
  const lines = collectLogLines();
  const sections = (Object.keys(titles) as ProgramName[]).map((program) => {
    const own = lines.filter((line) => line.program === program);
    return `## ${titles[program]}\n\n${linesTable(own)}`;
  });
  return page('Log lines', introduction, [...sections, `## Fields\n\n${fieldsTable(lines)}`]);
}

/**
 * Formats one row for each message, because several places of the source may write the same
 * message.
 */
function linesTable(lines: readonly LogLine[]): string {
  const byMessage = Map.groupBy(lines, messageOf);
  const rows = [...byMessage].sort(byFirst).map(([message, same]) => {
    const levels = new Set(same.flatMap((line) => line.levels));
    const fields = new Set(same.flatMap((line) => line.fields));
    return [message, [...levels].join(', '), codes([...fields].sort())];
  });
  return table(['Message', 'Level', 'Fields'], rows);
}

function messageOf({ message }: LogLine): string {
  return 'text' in message ? message.text : `{${message.expression}}`;
}

function fieldsTable(lines: readonly LogLine[]): string {
  const used = new Set(lines.flatMap((line) => line.fields));
  const rows = Object.entries(logFields)
    .filter(([name]) => used.has(name))
    .sort(byFirst)
    .map(([name, meaning]) => [`\`${name}\``, meaning]);
  return table(['Field', 'Meaning'], rows);
}

function byFirst([one]: readonly [string, unknown], [other]: readonly [string, unknown]): number {
  return one < other ? -1 : 1;
}
