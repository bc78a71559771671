// Runs as process 1 of the new namespaces, with all capabilities in them and none outside. Prepares
// the namespaces, runs the command without capabilities, and exits when the command ends.
import { type ChildProcess, spawn } from 'node:child_process';
import fs from 'node:fs';
import { constants } from 'node:os';
import { socketKind } from '../../proxy/transparent/descriptors.ts';
import { IsolationError } from './isolation-error.ts';
import {
  becomeUntraceable,
  dropPrivilegesOfChildren,
  installFilter,
  keepDescriptorsFromChildren,
  leaveSessionKeyring,
  reapOrphans,
} from './kernel.ts';
import { coverMounts } from './namespace-mounts.ts';
import { connectSidecar, prepareNetwork } from './namespace-network.ts';
import {
  type FromInside,
  forwardedSignals,
  fromTerminal,
  type IsolationPlan,
  type ToInside,
} from './plan.ts';
import { systemCallFilter } from './system-call-filter.ts';

let child: ChildProcess | undefined;
const early: NodeJS.Signals[] = [];

process.on('message', (message: ToInside) => {
  if (message.kind === 'signal') deliver(message.signal);
  else start(message.plan).catch(fail);
});
// The process outside has ended, so nobody waits for the command.
process.on('disconnect', () => process.exit(1));
// Ignores these signals, because the command has the same user id and could send them to this
// process.
for (const signal of [...fromTerminal, ...forwardedSignals]) process.on(signal, () => {});

function deliver(signal: NodeJS.Signals): void {
  if (child === undefined) early.push(signal);
  else child.kill(signal);
}

async function start(plan: IsolationPlan): Promise<void> {
  becomeUntraceable();
  refuseNetworkSockets();
  const filter = systemCallFilter(process.arch);
  if (filter === undefined) {
    throw new IsolationError('run.isolation_failed', `No filter for ${process.arch}.`);
  }
  const families = await prepareNetwork();
  const sidecar = await connectSidecar({ ...plan, families });
  sidecar.on('error', () => {}).unref();
  coverMounts(plan);
  leaveSessionKeyring();
  keepDescriptorsFromChildren();
  installAfterPrivileges(filter);
  // Enters the folder again by its path, because the current working directory is not below the new
  // mounts.
  process.chdir(plan.cwd);
  runCommand(plan);
}

/**
 * Drops the privileges of children, then installs the filter. For the filter, the kernel requires
 * privileges or `no_new_privs`, which the first step sets.
 */
function installAfterPrivileges(filter: Buffer): void {
  dropPrivilegesOfChildren();
  installFilter(filter);
}

/**
 * Throws if a standard stream is a socket, unless it is a Unix stream. Such a socket belongs to
 * another network namespace, in which the command could connect it to another address.
 */
function refuseNetworkSockets(): void {
  for (const fd of [0, 1, 2]) {
    const kind = socketKind(fd);
    if (kind === undefined || (kind.family === 'unix' && kind.type === 'stream')) continue;
    throw new IsolationError('run.isolation_stdio_socket', `It is descriptor ${fd}.`);
  }
}

function runCommand({ command: [file, ...args], env, cwd }: IsolationPlan): void {
  child = spawn(file, args, { env, cwd, stdio: 'inherit' });
  for (const signal of early) child.kill(signal);
  process.on('SIGCHLD', () => reapOrphans(child?.pid));
  child.once('error', (error: NodeJS.ErrnoException) => {
    fs.writeSync(2, `sallyport: Cannot run ${file} (${error.code}).\n`);
    process.exit(error.code === 'ENOENT' ? 127 : 126);
  });
  child.once('exit', (code, signal) => {
    process.exit(code ?? 128 + (signal === null ? 0 : constants.signals[signal]));
  });
}

/** The process outside prints the error. */
function fail(error: Error): void {
  const { code, detail } = error as Partial<IsolationError>;
  const message: FromInside =
    error instanceof IsolationError && code !== undefined
      ? { kind: 'failed', code, ...(detail === undefined ? {} : { detail }) }
      : { kind: 'crashed', message: error.message };
  process.send?.(message, () => process.exit(1));
}
