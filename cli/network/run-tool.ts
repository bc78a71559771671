import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants } from 'node:fs';
import { access } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { NetworkErrorCode } from '../../shared/errors/network-error-kinds.ts';
import { printable } from '../support/terminal.ts';
import { NetworkError } from './network-error.ts';

/** The administrator's folders, which the PATH of other users often lacks. */
const folders = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/sbin'];

/** The path of an installed program, or undefined. */
export async function findTool(name: string): Promise<string | undefined> {
  for (const folder of folders.filter((one) => one !== '')) {
    const path = join(folder, name);
    const isThere = await access(path, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (isThere) return path;
  }
  return undefined;
}

/** Runs a program with a text as its input; returns its output. Throws a `NetworkError` if it fails. */
export async function runTool(name: string, args: readonly string[], input = ''): Promise<string> {
  const path = await findTool(name);
  if (path === undefined) {
    throw new NetworkError('network.tool_missing', `The program ${name} is not installed.`);
  }
  const child = spawn(path, args, { env: { PATH: folders.join(delimiter), LC_ALL: 'C' } });
  const exited = once(child, 'exit') as Promise<[number | null]>;
  // A program that refuses its arguments exits without reading its input.
  child.stdin.on('error', () => {});
  child.stdin.end(input);
  const [output, errors, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    exited,
  ]);
  if (code === 0) return output;
  throw new NetworkError(codeOf(errors), failureText(name, errors, code));
}

function codeOf(errors: string): NetworkErrorCode {
  if (/Operation not permitted|Permission denied/.test(errors)) return 'network.not_permitted';
  const lacksFeature =
    /not supported|No such file or directory|No chain\/target\/match|table does not exist|can't initialize|Invalid argument/i;
  return lacksFeature.test(errors) ? 'network.kernel_unsupported' : 'network.tool_failed';
}

function failureText(name: string, errors: string, code: number | null): string {
  const lines = errors.split('\n').filter((line) => line.trim() !== '');
  const shown = lines.slice(0, 3).map((line) => printable(line.trim()));
  return `${name} failed (exit code ${code ?? 'none'}): ${shown.join(' ')}`.replace(/\.?$/, '.');
}
