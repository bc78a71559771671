import fs from 'node:fs';
import { parseArgs } from 'node:util';
import type { Services } from '../control-plane/core/services.ts';
import { createOperatorKey } from '../control-plane/keys/create-key.ts';
import { openServices } from '../control-plane/main.ts';
import { type Config, readConfig } from '../control-plane/platform/config/config.ts';
import { createTenant } from '../control-plane/tenants/create-tenant.ts';
import { setPlan } from '../control-plane/tenants/set-plan.ts';

const usage = `Usage: sallyport admin create-tenant NAME
       sallyport admin create-key TENANT ROLE PRINCIPAL
       sallyport admin set-plan TENANT free|team|enterprise

They work on the database itself, with the settings of a control plane, beside one that runs or none.

  create-tenant  a new tenant; prints its first owner key, once
  create-key     a key that no other key made, of role owner, admin, developer, approver or auditor; prints it, once.
                 Keys that one person made count as that person: a second decider gets theirs here
  set-plan       what the tenant may have: free (5 agents, 10 policies, no integrations),
                 team (100, 500, any number) or enterprise (no caps; every tenant's first plan)`;

/** `sallyport admin …`: what only who runs the control plane may do. Returns the exit code. */
export async function admin([verb, ...args]: readonly string[]): Promise<number> {
  if (verb === '--help') {
    console.log(usage);
    return 0;
  }
  const { positionals } = parseArgs({ args: [...args], allowPositionals: true });
  const [first, second, third] = positionals;
  if (verb === 'create-tenant' && first !== undefined && positionals.length === 1) {
    return withServices((services, config) => printNewTenant(services, config, first));
  }
  if (verb === 'create-key' && first !== undefined && third !== undefined && !positionals[3]) {
    return withServices(async (services) => {
      const wanted = { tenantId: first, role: second ?? '', principal: third };
      const key = await createOperatorKey(services, wanted);
      console.log(`The key of ${third} in tenant ${first}, shown this once:\n\n  ${key}\n`);
    });
  }
  if (verb === 'set-plan' && first !== undefined && second !== undefined && !positionals[2]) {
    return withServices(async (services) => {
      await setPlan(services, first, second);
      console.log(`Tenant ${first} has the plan ${second}.`);
    });
  }
  console.error(usage);
  return 2;
}

async function withServices(
  work: (services: Services, config: Config) => Promise<void>,
): Promise<number> {
  const config = readConfig({
    env: process.env,
    readFile: (path) => fs.readFileSync(path, 'utf8'),
  });
  const { services, close } = await openServices(config);
  try {
    await work(services, config);
    return 0;
  } finally {
    await close();
  }
}

async function printNewTenant(services: Services, config: Config, name: string): Promise<void> {
  const { tenantId, key } = await createTenant(services, name);
  const where =
    config.databaseUrl === undefined
      ? `the embedded database in ${config.dataDir}`
      : 'the database of DATABASE_URL';
  console.log(
    `Tenant ${tenantId} is ready in ${where}. Its owner key, shown this once:\n\n  ${key}\n`,
  );
}
