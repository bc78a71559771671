import { spawn } from 'node:child_process';
import fs from 'node:fs';
import { constants } from 'node:os';
import { isatty } from 'node:tty';
import { readConfig } from '../proxy/settings/config.ts';
import { agentEnvironment, asShell, changed, type EnvironmentChange } from './agent-environment.ts';
import { findSidecar } from './find-sidecar.ts';
import { findRunning } from './running-instance.ts';
import { writeTrustFiles } from './trust-files.ts';
import { goWarning } from './warn-of-go.ts';

type Environment = Readonly<Record<string, string | undefined>>;

export const usage = `Usage: sallyport run -- COMMAND [ARGS…]
       sallyport run --print

Where the sidecar is: SALLYPORT_PROXY_HOST, SALLYPORT_PROXY_PORT, SALLYPORT_PROXY_ADMIN_PORT,
SALLYPORT_PROXY_TOKEN.`;

/**
 * `sallyport run -- COMMAND …`: runs a command whose clients all go through the sidecar, and gives
 * its exit code; 128 and the signal's number when a signal ended it, 126 and 127 when it could not
 * be started, as shells say it. `sallyport run --print`: the same change as lines for a shell.
 */
export async function run(args: readonly string[]): Promise<number> {
  if (args.length === 1 && args[0] === '--print') {
    process.stdout.write(asShell(await changeFor(process.env)));
    return 0;
  }
  if (args[0] === '--help') {
    console.log(usage);
    return 0;
  }
  const [file, ...rest] = args[0] === '--' ? args.slice(1) : args;
  // Without `--` an option would be taken for the command.
  if (file === undefined || (file.startsWith('-') && args[0] !== '--')) {
    console.error(usage);
    return 2;
  }
  const env = changed(process.env, await changeFor(process.env));
  const warning = goWarning(file);
  if (warning !== undefined) console.error(warning);
  return startAndWait([file, ...rest], env);
}

async function changeFor(env: Environment): Promise<EnvironmentChange> {
  const settings = { ...whereRunning(env), ...env };
  const config = readConfig({ env: settings, readFile: (path) => fs.readFileSync(path, 'utf8') });
  const { proxyUrl, caPem } = await findSidecar(config);
  return agentEnvironment({ proxyUrl, ...writeTrustFiles(caPem, env) }, env);
}

/** Where the sidecar of an embedded instance listens, if one runs on this folder and no setting names another. */
function whereRunning(env: Environment): Environment {
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

// A terminal sends these to the command as well: handing them on would deliver them twice.
const fromTerminal = ['SIGINT', 'SIGQUIT'] as const;
const handedOn = ['SIGTERM', 'SIGHUP', 'SIGUSR1', 'SIGUSR2'] as const;

function startAndWait([file, ...args]: readonly [string, ...string[]], env: Environment) {
  return new Promise<number>((resolve) => {
    // Listening comes first: a signal that arrived in between would end this process alone.
    handOn((signal) => child.kill(signal));
    const child = spawn(file, args, { env, stdio: 'inherit' });
    child.once('error', (error: NodeJS.ErrnoException) => {
      console.error(`sallyport: ${file} cannot be run (${error.code}).`);
      resolve(error.code === 'ENOENT' ? 127 : 126);
    });
    child.once('exit', (code, signal) => {
      resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal]));
    });
  });
}

function handOn(deliver: (signal: NodeJS.Signals) => void): void {
  const hasTerminal = [0, 1, 2].some((fd) => isatty(fd));
  for (const signal of handedOn) process.on(signal, deliver);
  for (const signal of fromTerminal) process.on(signal, hasTerminal ? () => {} : deliver);
}
