import { spawn } from 'node:child_process';
import fs from 'node:fs';
import { constants } from 'node:os';
import { isatty } from 'node:tty';
import { readConfig } from '../../proxy/settings/config.ts';
import { findRunning } from '../support/running-instance.ts';
import {
  agentEnvironment,
  asShell,
  changed,
  type EnvironmentChange,
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
 * command's exit code. As in a shell, the code is 128 plus the signal's number if a signal ended
 * the command, 127 if the command does not exist, and 126 if it cannot be executed.
 */
export async function run(file: string, args: readonly string[]): Promise<number> {
  const env = changed(process.env, await environmentChange(process.env));
  const warning = goWarning(file);
  if (warning !== undefined) console.error(warning);
  return startAndWait([file, ...args], env);
}

async function environmentChange(env: Environment): Promise<EnvironmentChange> {
  const settings = { ...addressOfRunning(env), ...env };
  const config = readConfig({ env: settings, readFile: (path) => fs.readFileSync(path, 'utf8') });
  const { proxyUrl, caPem } = await findSidecar(config, env);
  return agentEnvironment({ proxyUrl, ...writeTrustFiles(caPem, env) }, env);
}

/** The address of the embedded instance of this folder, unless a setting names another sidecar. */
function addressOfRunning(env: Environment): Environment {
  const isNamed = Object.keys(env).some((name) => name.startsWith('SALLYPORT_PROXY_'));
  const running = isNamed ? undefined : findRunning(env);
  if (running === undefined) return {};
  const [proxy, admin] = [new URL(running.proxyUrl), new URL(running.adminUrl)];
  return {
    SALLYPORT_PROXY_HOST: proxy.hostname.replace(/^\[|\]$/g, ''),
    SALLYPORT_PROXY_PORT: proxy.port,
    SALLYPORT_PROXY_ADMIN_PORT: admin.port,
  };
}

// A terminal sends these signals to the command itself, so forwarding would deliver them twice.
const fromTerminal = ['SIGINT', 'SIGQUIT'] as const;
const forwarded = ['SIGTERM', 'SIGHUP', 'SIGUSR1', 'SIGUSR2'] as const;

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
  const hasTerminal = [0, 1, 2].some((fd) => isatty(fd));
  for (const signal of forwarded) process.on(signal, deliver);
  for (const signal of fromTerminal) process.on(signal, hasTerminal ? () => {} : deliver);
}
