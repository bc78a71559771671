#!/usr/bin/env node
import { describeFileError } from '../shared/base/file-error.ts';
import { createProgram, usageExitCode } from './commands/program.ts';
import { printable } from './support/terminal.ts';

/** Errors with a message for the operator. Named, because importing their classes loads much code. */
const operatorErrors = ['SettingsError', 'StoreError', 'SourceError', 'KmsError'];

/** These exit with 1 for findings, so their failures need another code. */
const failsWith2 = ['policy', 'evidence'];

const program = createProgram(process.stdout.columns);
try {
  await program.parseAsync();
} catch (error) {
  const usage = usageExitCode(error);
  if (usage === undefined) reportError(error as Error);
  const isFailure = usage === undefined || usage === 1;
  process.exitCode = isFailure && failsWith2.includes(program.args[0] ?? '') ? 2 : (usage ?? 1);
}

/** Prints an error: one that the operator can correct as its message, others with their stack. */
function reportError(error: Error): void {
  const isOperators = operatorErrors.includes(error.name);
  const message = isOperators ? error.message : describeFileError(error);
  console.error(message === undefined ? error.stack : `sallyport: ${printableLines(message)}`);
}

/** Messages quote files and responses, which may not control the terminal. */
function printableLines(message: string): string {
  return message.split('\n').map(printable).join('\n');
}
