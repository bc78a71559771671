import fs from 'node:fs';
import type { Services } from '../../control-plane/core/services.ts';
import { createOperatorKey } from '../../control-plane/keys/create-key.ts';
import { openServices } from '../../control-plane/main.ts';
import { type Config, readConfig } from '../../control-plane/platform/config/config.ts';
import { createTenant } from '../../control-plane/tenants/create-tenant.ts';
import { setPlan } from '../../control-plane/tenants/set-plan.ts';

/** `sallyport admin create-tenant`. */
export function printNewTenant(name: string): Promise<number> {
  return withServices(async (services, config) => {
    const { tenantId, key } = await createTenant(services, name);
    const database =
      config.databaseUrl === undefined
        ? `the embedded database in ${config.dataDir}`
        : 'the database of DATABASE_URL';
    console.log(
      `Created tenant ${tenantId} in ${database}. Its owner key is shown only now:\n\n  ${key}\n`,
    );
  });
}

/** `sallyport admin create-key`. */
export function printNewKey(wanted: {
  readonly tenantId: string;
  readonly role: string;
  readonly principal: string;
}): Promise<number> {
  return withServices(async (services) => {
    const key = await createOperatorKey(services, wanted);
    const { tenantId, principal } = wanted;
    console.log(
      `Created a key for ${principal} in tenant ${tenantId}. It is shown only now:\n\n  ${key}\n`,
    );
  });
}

/** `sallyport admin set-plan`. */
export function printPlan(tenantId: string, plan: string): Promise<number> {
  return withServices(async (services) => {
    await setPlan(services, tenantId, plan);
    console.log(`Tenant ${tenantId} has the plan ${plan}.`);
  });
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
