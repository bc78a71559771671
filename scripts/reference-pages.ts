import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { stepsFor } from '../shared/decision/next-steps.ts';
import { type ErrorCode, errorFamily, errorKinds } from '../shared/errors/error-kinds.ts';
import { logNamesPage } from './log-names-page.ts';
import { page, table } from './markdown.ts';
import { metricsPage } from './metrics-page.ts';

const run = promisify(execFile);

/** The pages of `docs/reference/` that are generated from the code: file name and content. */
export async function referencePages(): Promise<Readonly<Record<string, string>>> {
  const [cli, metrics] = await Promise.all([cliPage(), metricsPage()]);
  return {
    'errors.md': errorPage(),
    'cli.md': cli,
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
    sections,
  );
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

const commands = [
  'up',
  'demo',
  'run',
  'mcp',
  'policy',
  'approvals',
  'kill-switch',
  'sidecars',
  'evidence',
  'vault',
  'admin',
];

async function cliPage(): Promise<string> {
  const overview = await helpOf(['help']);
  const sections = [];
  for (const command of commands) {
    const help = await helpOf([command, '--help']);
    sections.push(`## sallyport ${command}\n\n\`\`\`text\n${help}\n\`\`\``);
  }
  return page(
    'Command line',
    `\`\`\`text\n${overview}\n\`\`\`\n\nExit codes, unless a command says otherwise: 0 done, 1 failed, 2 used wrongly.`,
    sections,
  );
}

async function helpOf(args: readonly string[]): Promise<string> {
  const program = fileURLToPath(new URL('../cli/main.ts', import.meta.url));
  const { stdout } = await run(process.execPath, [program, ...args]);
  return stdout.trimEnd();
}
