import { spawn } from 'node:child_process';
import fs from 'node:fs';
import { constants } from 'node:os';
import { isatty } from 'node:tty';
import { type Config, readConfig } from '../../proxy/settings/config.ts';
import { forwardedSignals, fromTerminal } from '../isolation/plan.ts';
import { assertIsolation, runIsolated } from '../isolation/run-isolated.ts';
import { findRunning, type RunningInstance } from '../support/running-instance.ts';
import {
  agentEnvironment,
  asShell,
  changed,
  type EnvironmentChange,
  isolatedEnvironment,
  writeTrustFiles,
} from './agent-environment.ts';
import { findSidecar } from './find-sidecar.ts';
import { goWarning } from './go-warning.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** `sallyport run --print`: prints the environment of `run` as lines for a shell. */
export async function printEnvironment(): Promise<number> {
  process.stdout.write(asShell(await environmentChange(process.env)));
  return 0;
}

/**
 * `sallyport run -- COMMAND`: runs a command whose clients all go through the sidecar. Returns the
 * command's exit code. As in a shell, the code is 127 if the command does not exist, 126 if it
 * cannot be executed, and 128 plus the signal's number if a signal ended the command.
 */
export async function run(file: string, args: readonly string[]): Promise<number> {
  const env = changed(process.env, await environmentChange(process.env));
  const warning = goWarning(file);
  if (warning !== undefined) console.error(warning);
  return startAndWait([file, ...args], env);
}

/**
 * `sallyport run --isolated -- COMMAND`: like `run`, but no network traffic of the command can
 * bypass the sidecar, because the command's network namespace has no other way out.
 */
export async function runIsolatedCommand(file: string, args: readonly string[]): Promise<number> {
  await assertIsolation();
  const { config, running } = settingsOf(process.env);
  const { caPem } = await findSidecar(config, process.env);
  const trust = writeTrustFiles(caPem, process.env);
  const dataDir = process.env.SALLYPORT_DATA_DIR ?? '.sallyport';
  return runIsolated({
    command: [file, ...args],
    env: changed(process.env, isolatedEnvironment(trust, process.env)),
    surrounding: process.env,
    caPem,
    trustFiles: Object.values(trust),
    sidecarFolder: running?.sidecarFolder ?? dataDir,
    dataFolders: [dataDir],
    forwardSignals,
  });
}

async function environmentChange(env: Environment): Promise<EnvironmentChange> {
  const { proxyUrl, caPem } = await findSidecar(settingsOf(env).config, env);
  return agentEnvironment({ proxyUrl, ...writeTrustFiles(caPem, env) }, env);
}

/**
 * The sidecar's settings from the environment. If they name no proxy, uses the embedded instance of
 * this folder.
 */
function settingsOf(env: Environment): {
  readonly config: Config;
  readonly running: RunningInstance | undefined;
} {
  const isNamed = Object.keys(env).some((name) => name.startsWith('SALLYPORT_PROXY_'));
  const running = isNamed ? undefined : findRunning(env);
  const settings = { ...(running === undefined ? {} : addressOf(running)), ...env };
  const readFile = (path: string) => fs.readFileSync(path, 'utf8');
  return { config: readConfig({ env: settings, readFile }), running };
}

function addressOf(running: RunningInstance): Environment {
  const [proxy, admin] = [new URL(running.proxyUrl), new URL(running.adminUrl)];
  return {
    SALLYPORT_PROXY_HOST: proxy.hostname.replace(/^\[|\]$/g, ''),
    SALLYPORT_PROXY_PORT: proxy.port,
    SALLYPORT_PROXY_ADMIN_PORT: admin.port,
  };
}

function startAndWait([file, ...args]: readonly [string, ...string[]], env: Environment) {
  return new Promise<number>((resolve) => {
    // Adds the signal handlers before the command starts. A signal that arrived earlier would end
    // only this process, not the command.
    forwardSignals((signal) => child.kill(signal));
    const child = spawn(file, args, { env, stdio: 'inherit' });
    child.once('error', (error: NodeJS.ErrnoException) => {
      console.error(`sallyport: Cannot run ${file} (${error.code}).`);
      resolve(error.code === 'ENOENT' ? 127 : 126);
    });
    child.once('exit', (code, signal) => {
      resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal]));
    });
  });
}

function forwardSignals(deliver: (signal: NodeJS.Signals) => void): void {
  for (const signal of forwardedSignals) process.on(signal, deliver);
  for (const signal of fromTerminal) process.on(signal, hasTerminal() ? () => {} : deliver);
}

function hasTerminal(): boolean {
  return [0, 1, 2].some((fd) => isatty(fd));
}
