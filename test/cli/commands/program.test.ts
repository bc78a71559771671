import { CommanderError, type CommandUnknownOpts } from '@commander-js/extra-typings';
import { describe, expect, it } from 'vitest';
import { createProgram, helpOf, usageExitCode } from '../../../cli/commands/program.ts';

/** Returns the commands without subcommands, each as the words that select it. */
function leaves(command: CommandUnknownOpts, path: readonly string[] = []): string[] {
  if (command.commands.length === 0) return [path.join(' ')];
  return command.commands.flatMap((one) => leaves(one, [...path, one.name()]));
}

function find(program: CommandUnknownOpts, words: string): CommandUnknownOpts {
  return words.split(' ').reduce<CommandUnknownOpts>((command, word) => {
    const next = command.commands.find((one) => one.name() === word);
    if (next === undefined) throw new Error(`no command ${word}`);
    return next;
  }, program);
}

function mute(command: CommandUnknownOpts, written: string[]): void {
  command.configureOutput({ writeErr: (text) => written.push(text) });
  for (const one of command.commands) mute(one, written);
}

async function misuse(args: readonly string[]) {
  const program = createProgram();
  const written: string[] = [];
  mute(program, written);
  const error = await program.parseAsync(args, { from: 'user' }).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(CommanderError);
  return { code: usageExitCode(error), text: written.join('') };
}

const commands = leaves(createProgram());

describe.each(commands)('sallyport %s', (words) => {
  const command = find(createProgram(), words);

  it('has help with a summary, descriptions of its options, and examples', () => {
    const help = helpOf(command);
    expect(help).toMatch(new RegExp(`^Usage: sallyport ${words} `));
    expect(help).toMatch(/\nExamples:\n {2}\$ /);
    expect(command.summary()).not.toBe('');
    for (const { flags, description } of command.options)
      expect([flags, description]).not.toContain('');
    for (const argument of command.registeredArguments) expect(argument.description).not.toBe('');
  });

  it('refuses an unknown option and names it', async () => {
    const { code, text } = await misuse([...words.split(' '), '--no-such-option']);
    expect(code).toBe(2);
    expect(text).toContain(`Unknown option '--no-such-option'.\nUsage: sallyport ${words} `);
  });

  it('refuses missing and surplus arguments', async () => {
    const expected = command.registeredArguments;
    if (expected.some(({ required }) => required)) {
      const { code, text } = await misuse(words.split(' '));
      expect([code, text]).toEqual([2, expect.stringContaining('Missing required argument')]);
    }
    if (!expected.some(({ variadic }) => variadic)) {
      const surplus = Array.from({ length: expected.length + 1 }, (_, index) => `${index + 1}`);
      const { code, text } = await misuse([...words.split(' '), ...surplus]);
      expect([code, text]).toEqual([2, expect.stringContaining('Too many arguments')]);
    }
  });
});

it.each([
  'policy',
  'approvals',
  'kill-switch',
  'sidecars',
  'network',
  'evidence',
  'vault',
  'admin',
])('`sallyport %s` refuses an unknown command and a missing command', async (group) => {
  const unknown = await misuse([group, 'no-such-command']);
  expect(unknown.code).toBe(2);
  expect(unknown.text).toContain(
    `Unknown command 'no-such-command'.\nUsage: sallyport ${group} <command>`,
  );
  const missing = await misuse([group]);
  expect([missing.code, missing.text]).toEqual([2, expect.stringContaining('Commands:')]);
});

it.each([
  ['--wait', ['kill-switch', 'arm', '--wait', '11s'], 'Use at most 10s'],
  ['--wait', ['kill-switch', 'arm', '--wait', '5'], 'Use a number and a unit'],
  ['--ttl', ['approvals', 'approve', '1', '--ttl', '-1h'], 'Use a number and a unit'],
  ['--uses', ['sidecars', 'token', '--uses', '0'], 'Use a whole number from 1 to 1000.'],
])('`sallyport` refuses an invalid value of %s: %j', async (option, args, advice) => {
  const { code, text } = await misuse(args);
  expect(code).toBe(1);
  expect(text).toContain(`Option '${option} `);
  expect(text).toContain(advice);
});
