#!/usr/bin/env node
import { describeFileError } from '../shared/base/file-error.ts';
import { runMain } from '../shared/base/run-main.ts';
import { createProgram, usageExitCode } from './commands/program.ts';
import { printable } from './support/terminal.ts';

/**
 * Names of errors whose message is for the operator. Importing the classes would load much code.
 */
const operatorErrors = [
  'SettingsError',
  'StoreError',
  'SourceError',
  'KmsError',
  'NetworkError',
  'IsolationError',
];

/** These commands exit with 1 for findings, so their failures exit with 2. */
const failsWith2 = ['policy', 'evidence'];

runMain(async () => {
  const program = createProgram(process.stdout.columns);
  try {
    await program.parseAsync();
  } catch (error) {
    const usage = usageExitCode(error);
    if (usage === undefined) reportError(error as Error);
    const isFailure = usage === undefined || usage === 1;
    process.exitCode = isFailure && failsWith2.includes(program.args[0] ?? '') ? 2 : (usage ?? 1);
  }
});

/** Prints an error: only the message if the operator can correct it, otherwise the stack. */
function reportError(error: Error): void {
  const isOperators = operatorErrors.includes(error.name);
  const message = isOperators ? error.message : describeFileError(error);
  console.error(message === undefined ? error.stack : `sallyport: ${printableLines(message)}`);
}

/** Replaces control characters, because messages quote files and responses. */
function printableLines(message: string): string {
  return message.split('\n').map(printable).join('\n');
}
