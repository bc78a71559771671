import fs from 'node:fs';
import { readConfig } from '../control-plane/config.ts';
import { openServices } from '../control-plane/main.ts';
import { createTenant as create } from '../control-plane/tenants/create-tenant.ts';

/** `sallyport admin create-tenant NAME`: prints the first owner key of a new tenant, once. */
export async function createTenant(name: string): Promise<number> {
  const config = readConfig({
    env: process.env,
    readFile: (path) => fs.readFileSync(path, 'utf8'),
  });
  const { services, close } = await openServices(config);
  try {
    const { tenantId, key } = await create(services, name);
    const where =
      config.databaseUrl === undefined
        ? `the embedded database in ${config.dataDir}`
        : 'the database of DATABASE_URL';
    console.log(
      `Tenant ${tenantId} is ready in ${where}. Its owner key, shown this once:\n\n  ${key}\n`,
    );
    return 0;
  } finally {
    await close();
  }
}
