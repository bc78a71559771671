import { Command, CommanderError, type CommandUnknownOpts } from '@commander-js/extra-typings';
import { printable } from '../support/terminal.ts';
import { declareAdmin } from './admin.ts';
import { declareApprovals } from './approvals.ts';
import { declareEvidence } from './evidence.ts';
import { declareKillSwitch } from './kill-switch.ts';
import { declareDemo, declareMcp, declareRun, declareUp } from './local.ts';
import { declareNetwork } from './network.ts';
import { declarePolicy } from './policy.ts';
import { declareReady } from './ready.ts';
import { declareSidecars } from './sidecars.ts';
import { declareVault } from './vault.ts';

const helpWidthMax = 100;

/**
 * All commands with their arguments, options and help. The modules that execute the commands are
 * not loaded here.
 */
export function createProgram(columns: number = helpWidthMax): Command {
  const program = new Command('sallyport')
    .usage('<command> [options]')
    .description('Sallyport decides, executes and records the actions of AI agents.')
    .helpOption('-h, --help', 'show help')
    .helpCommand('help [command]', 'show the help of a command')
    .addHelpText(
      'after',
      '\nSettings are environment variables: docs/reference/settings.md lists them.\nExit codes, unless a command says otherwise: 0 done, 1 failed, 2 used wrongly.',
    )
    .enablePositionalOptions()
    .exitOverride()
    .configureHelp({ helpWidth: Math.min(columns, helpWidthMax) })
    .configureOutput({ outputError: (text, write) => write(usageError(text)) });
  declareUp(program);
  declareDemo(program);
  declareRun(program);
  declareMcp(program);
  declarePolicy(program);
  declareApprovals(program);
  declareKillSwitch(program);
  declareSidecars(program);
  declareNetwork(program);
  declareReady(program);
  declareEvidence(program);
  declareVault(program);
  declareAdmin(program);
  showUsageAfterErrors(program);
  return program;
}

/** The full help of a command, with the texts that follow its options. */
export function helpOf(command: CommandUnknownOpts): string {
  let text = '';
  command.configureOutput({
    writeOut: (part) => {
      text += part;
    },
  });
  command.outputHelp();
  return text.trimEnd();
}

/** The exit code for an error that commander reported, or undefined for another error. */
export function usageExitCode(error: unknown): number | undefined {
  if (!(error instanceof CommanderError)) return undefined;
  if (error.exitCode === 0) return 0;
  // The API refuses many invalid values, and the command then exits with 1. An invalid value that
  // commander refuses has the same exit code.
  return error.code === 'commander.invalidArgument' ? 1 : 2;
}

/** Rewrites commander's message to the form of all errors. */
function usageError(text: string): string {
  const [problem = '', ...rest] = text
    .trim()
    .replace(/^error: (command-argument )?/, '')
    .split('\n');
  const suggestion = rest.join(' ').replace(/^\((.*)\)$/, ' $1');
  const sentence = `${problem.charAt(0).toUpperCase()}${problem.slice(1)}`
    // The value after the `=` of an unknown option may be a secret.
    .replace(/^(Unknown option '[^=]*)=.*'/, "$1'")
    .replace(/\.?$/, '.');
  return `sallyport: ${printable(`${sentence}${suggestion}`)}\n`;
}

function showUsageAfterErrors(command: CommandUnknownOpts, parents = ''): void {
  const name = `${parents}${command.name()}`;
  const usage = command.createHelp().commandUsage(command);
  command.showHelpAfterError(
    `Usage: ${usage}\nRun \`${name} --help\` for its arguments and options.`,
  );
  for (const subcommand of command.commands) {
    showUsageAfterErrors(subcommand, `${name} `);
  }
}
