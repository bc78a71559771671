import type { CommandUnknownOpts } from '@commander-js/extra-typings';
import { createProgram, helpOf } from '../cli/commands/program.ts';
import { stepsFor } from '../shared/decision/next-steps.ts';
import { type ErrorCode, errorFamily, errorKinds } from '../shared/errors/error-kinds.ts';
import { isolationErrorKinds } from '../shared/errors/isolation-error-kinds.ts';
import { networkErrorKinds } from '../shared/errors/network-error-kinds.ts';
import { logNamesPage } from './log-names-page.ts';
import { page, table } from './markdown.ts';
import { metricsPage } from './metrics-page.ts';

/** The pages of `docs/reference/` that are generated from the code: file name and content. */
export async function referencePages(): Promise<Readonly<Record<string, string>>> {
  const metrics = await metricsPage();
  return {
    'errors.md': errorPage(),
    'cli.md': cliPage(),
    'metrics.md': metrics,
    'log-names.md': logNamesPage(),
  };
}

function errorPage(): string {
  const codes = Object.keys(errorKinds) as ErrorCode[];
  const families = [...new Set(codes.map(errorFamily))].sort();
  const sections = families.map((family) => {
    const rows = codes.filter((code) => errorFamily(code) === family).sort();
    return `## ${family}\n\n${errorTable(rows)}`;
  });
  return page(
    'Reason codes',
    `Every reason code that Sallyport can return. A policy can return codes of its own, too: those are the
\`reason\` of its rules and are not listed here.

- **Status** is the HTTP status of the control plane. The sidecar answers 403 for a code whose status
  column has a star, because the refusal is about the action and not about the request.
- **Retry** is \`yes\` if the same request, unchanged, can succeed later.
- **Next steps** are returned as \`next_steps\`. They are written for the model that reads them.`,
    [...sections, networkSection(), isolationSection()],
  );
}

/** Codes without an HTTP status, because only the command line reports them. */
function networkSection(): string {
  const intro = '`sallyport network` prints these codes and exits with 1.';
  return `## network\n\n${intro}\n\n${operatorTable(networkErrorKinds)}`;
}

function isolationSection(): string {
  const intro = '`sallyport run --isolated` prints these codes and exits with 1.';
  return `## run\n\n${intro}\n\n${operatorTable(isolationErrorKinds)}`;
}

function operatorTable(
  kinds: Readonly<Record<string, { readonly text: string; readonly nextStep: string }>>,
): string {
  const rows = Object.entries(kinds)
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([code, { text, nextStep }]) => [`\`${code}\``, text, nextStep]);
  return table(['Code', 'Meaning', 'What to do'], rows);
}

function errorTable(codes: readonly ErrorCode[]): string {
  const rows = codes.map((code) => {
    const { status, retryable, text, ...traits } = errorKinds[code];
    const star = 'ownStatus' in traits ? '' : ' *';
    const steps = stepsFor(code).join(' ');
    return [`\`${code}\``, `${status}${star}`, retryable ? 'yes' : 'no', text, steps];
  });
  return table(['Code', 'Status', 'Retry', 'Meaning', 'Next steps'], rows);
}

function cliPage(): string {
  const program = createProgram();
  const groups = program.commands.map((group) => helpSections(2, group.name(), group).join('\n\n'));
  return page('Command line', helpText(program), groups);
}

/** The help of a command and of all its subcommands. */
function helpSections(level: number, name: string, command: CommandUnknownOpts): string[] {
  const inner = command.commands.flatMap((one) =>
    helpSections(level + 1, `${name} ${one.name()}`, one),
  );
  return [helpSection(level, name, command), ...inner];
}

function helpSection(level: number, name: string, command: CommandUnknownOpts): string {
  return `${'#'.repeat(level)} sallyport ${name}\n\n${helpText(command)}`;
}

function helpText(command: CommandUnknownOpts): string {
  return `\`\`\`text\n${helpOf(command)}\n\`\`\``;
}
