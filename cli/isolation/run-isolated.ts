import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { sha256 } from '../../shared/crypto/hash.ts';
import { findTool } from '../network/run-tool.ts';
import { hiddenPaths } from './hidden-paths.ts';
import { IsolationError } from './isolation-error.ts';
import { type FromInside, type IsolationPlan, type ToInside, unshareOptions } from './plan.ts';
import { refusalOf } from './refusal-of-kernel.ts';

type Environment = Readonly<Record<string, string | undefined>>;

interface IsolatedCommand {
  readonly command: readonly [string, ...string[]];
  /** The environment of the command. */
  readonly env: Environment;
  /** The environment of this process. */
  readonly surrounding: Environment;
  readonly caPem: string;
  readonly trustFiles: readonly string[];
  readonly sidecarFolder: string;
  /** Data directories of Sallyport. */
  readonly dataFolders: readonly string[];
  /** Calls the function with each signal for the command. */
  readonly forwardSignals: (deliver: (signal: NodeJS.Signals) => void) => void;
}

/** Throws unless this machine can isolate a command of this user. */
export async function assertIsolation(): Promise<void> {
  if (process.platform !== 'linux') throw new IsolationError('run.isolation_not_linux');
  if (process.getuid?.() === 0) throw new IsolationError('run.isolation_root');
  for (const name of ['unshare', 'ip', 'nft']) {
    if ((await findTool(name)) !== undefined) continue;
    throw new IsolationError('run.isolation_tool_missing', `It is \`${name}\`.`);
  }
  const unshare = (await findTool('unshare')) ?? '';
  const attempt = spawnSync(unshare, [...unshareOptions, '--', 'true'], { encoding: 'utf8' });
  if (attempt.status !== 0) throw refusalOf(attempt.stderr, readSetting);
}

function readSetting(path: string): string | undefined {
  try {
    return fs.readFileSync(path, 'utf8').trim();
  } catch {
    return undefined;
  }
}

/** Runs a command in namespaces of its own. Returns its exit code. */
export async function runIsolated(wanted: IsolatedCommand): Promise<number> {
  const unshare = (await findTool('unshare')) ?? '';
  const plan = planOf(wanted);
  const inside = fileURLToPath(new URL('inside.ts', import.meta.url));
  // Disables the inspector's signal, because the command runs as the same user and could send this
  // signal to the process.
  const node = [process.execPath, '--disable-sigusr1', '--disable-warning=ExperimentalWarning'];
  const child = spawn(unshare, [...unshareOptions, '--', ...node, inside], {
    env: { PATH: process.env.PATH },
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
  });
  const send = (message: ToInside) => child.send(message, () => {});
  wanted.forwardSignals((signal) => send({ kind: 'signal', signal }));
  send({ kind: 'plan', plan });
  return exitCode(child);
}

function planOf(wanted: IsolatedCommand): IsolationPlan {
  const { command, env, surrounding, caPem, trustFiles, sidecarFolder } = wanted;
  const cwd = fs.realpathSync(process.cwd());
  const real = (path: string) => fs.realpathSync(path);
  const { folders, sockets } = hiddenPaths({
    env: surrounding,
    dataFolders: [...wanted.dataFolders, sidecarFolder],
    needed: [cwd, ...trustFiles.map((path) => dirname(real(path)))],
  });
  return {
    command,
    env,
    cwd,
    sidecarFolder: real(sidecarFolder),
    caSha256: sha256(caPem),
    hiddenFolders: folders,
    hiddenSockets: sockets,
  };
}

function exitCode(child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    child.on('message', (message: FromInside) => {
      reject(
        message.kind === 'failed'
          ? new IsolationError(message.code, message.detail)
          : new IsolationError('run.isolation_failed', `${message.message.replace(/\.?$/, '.')}`),
      );
    });
    child.once('error', reject);
    child.once('exit', (code) => resolve(code ?? 137));
  });
}
