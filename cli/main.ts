#!/usr/bin/env node
import { parseArgs } from 'node:util';
import { explain } from './explain.ts';
import { reportUnknown } from './run-verb.ts';

const usage = `Usage: sallyport <command>

  up [--quiet]             run everything in one process (what npm start does); a line for each decision
  demo [--once]            watch the main job: an agent's calls decided, performed and proved
  run -- COMMAND …         run an agent whose calls all go through the sidecar
  run --print              print what that changes in the environment, for a shell to evaluate
  sidecars list            the fleet: what each sidecar holds, its spool, its last decision
  sidecars token           make an enrolment token for a sidecar
  kill-switch arm|list|disarm
                           stop a tool or an agent now
  policy lint|test|diff|push|backtest|observed|rollback|packs|install
                           policies as files: check, test, compare, publish, replay on the past
  approvals list|show|approve|deny|revoke
                           requests that wait for a human, and your decision
  evidence verify|export|jwks|checkpoint|stats|tail
                           exports that prove themselves, verified without a server
  vault status|rotate-master-key|rewrap
                           the master key: what it wraps, and a new one without downtime
  mcp --name NAME -- CMD   put a local stdio MCP server behind the sidecar
  admin create-tenant|create-key|set-plan
                           a new tenant and its first owner key; the key of another person; plan limits

Settings are environment variables: docs/reference/settings.md lists them.`;

function print(text: string): number {
  console.log(text);
  return 0;
}

const commandNames = [
  'up',
  'demo',
  'run',
  'sidecars',
  'kill-switch',
  'policy',
  'approvals',
  'evidence',
  'vault',
  'mcp',
  'admin',
  'help',
];

const upUsage = `Usage: sallyport up [--quiet]

Runs control plane and sidecar in this process until SIGINT or SIGTERM, and prints a line for each decision:
on a terminal to be read, elsewhere as JSON. --quiet prints none.`;

const demoUsage = `Usage: sallyport demo [--once]

Shows an agent's calls decided, performed and proved, and leaves everything running; --once ends it.`;

/** Whether help is wanted of a command, and not of the program that it runs. */
function asksForHelp(args: readonly string[]): boolean {
  const own = args.includes('--') ? args.slice(0, args.indexOf('--')) : args;
  return own.includes('--help');
}

/** `--help` anywhere is the command's own, whatever verb it is given with. */
function withHelp(args: readonly string[]): readonly string[] {
  return asksForHelp(args) ? ['--help'] : args;
}

/** Runs one command. Exit codes: 0 done, 1 failed, 2 used wrongly; `run` gives its command's. */
async function main([command, ...rest]: readonly string[]): Promise<number> {
  switch (command) {
    case 'up': {
      if (asksForHelp(rest)) return print(upUsage);
      const { values } = parseArgs({ args: rest, options: { quiet: { type: 'boolean' } } });
      const { up } = await import('./up.ts');
      return up({ quiet: values.quiet === true });
    }
    case 'demo': {
      if (asksForHelp(rest)) return print(demoUsage);
      const { values } = parseArgs({ args: rest, options: { once: { type: 'boolean' } } });
      const { demo } = await import('./demo/demo.ts');
      return demo({ once: values.once === true });
    }
    case 'run':
      return (await import('./run.ts')).run(rest);
    case 'sidecars':
      return (await import('./sidecars.ts')).sidecars(withHelp(rest));
    case 'kill-switch':
      return (await import('./kill-switches.ts')).killSwitches(withHelp(rest));
    case 'policy':
      return (await import('./policy/policy.ts')).policy(rest);
    case 'approvals':
      return (await import('./approvals.ts')).approvals(withHelp(rest));
    case 'evidence':
      return (await import('./evidence/evidence.ts')).evidence(rest);
    case 'vault':
      return (await import('./vault/vault.ts')).vault(withHelp(rest));
    case 'mcp':
      return (await import('./mcp/mcp.ts')).mcp(rest);
    case 'admin':
      return (await import('./admin.ts')).admin(withHelp(rest));
    case 'help':
    case '--help':
      return print(usage);
  }
  reportUnknown(command ?? '', commandNames);
  console.error(usage);
  return 2;
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  process.exitCode = explain(error as Error) ? 2 : 1;
}
