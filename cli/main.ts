#!/usr/bin/env node
import { parseArgs } from 'node:util';
import { explain } from './explain.ts';

const usage = `Usage: sallyport <command>

  up                       run everything in one process (what npm start does)
  demo [--once]            watch the main job: an agent's calls decided, performed and proved
  run -- COMMAND …         run an agent whose calls all go through the sidecar
  run --print              print what that changes in the environment, for a shell to evaluate
  sidecars list            the fleet: what each sidecar holds, its spool, its last decision
  sidecars token           make an enrolment token for a sidecar
  kill-switch arm|list|disarm
                           stop a tool or an agent now
  policy lint|test|diff|push|backtest
                           policies as files: check, try, compare, publish, replay on the past
  approvals list|show|approve|deny
                           what waits for a human, and the answer
  evidence verify|export|jwks|checkpoint|stats|tail
                           exports that prove themselves, verified without a server
  vault status|rotate-master-key|rewrap
                           the master key: what it wraps, and a new one without downtime
  mcp --name NAME -- CMD   put a local stdio MCP server behind the sidecar
  admin create-tenant|set-plan
                           a new tenant and its first owner key; what a tenant may have

Settings are environment variables; the README lists them.`;

/** Runs one command. Exit codes: 0 done, 1 failed, 2 used wrongly; `run` gives its command's. */
async function main([command, ...rest]: readonly string[]): Promise<number> {
  switch (command) {
    case 'up': {
      parseArgs({ args: rest, options: {} });
      const { up } = await import('./up.ts');
      return up();
    }
    case 'demo': {
      const { values } = parseArgs({ args: rest, options: { once: { type: 'boolean' } } });
      const { demo } = await import('./demo/demo.ts');
      return demo({ once: values.once === true });
    }
    case 'run':
      return (await import('./run.ts')).run(rest);
    case 'sidecars':
      return (await import('./sidecars.ts')).sidecars(rest);
    case 'kill-switch':
      return (await import('./kill-switches.ts')).killSwitches(rest);
    case 'policy':
      return (await import('./policy/policy.ts')).policy(rest);
    case 'approvals':
      return (await import('./approvals.ts')).approvals(rest);
    case 'evidence':
      return (await import('./evidence/evidence.ts')).evidence(rest);
    case 'vault':
      return (await import('./vault/vault.ts')).vault(rest);
    case 'mcp':
      return (await import('./mcp/mcp.ts')).mcp(rest);
    case 'admin':
      return (await import('./admin.ts')).admin(rest);
    case 'help':
    case '--help':
      console.log(usage);
      return 0;
  }
  console.error(usage);
  return 2;
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  process.exitCode = explain(error as Error) ? 2 : 1;
}
