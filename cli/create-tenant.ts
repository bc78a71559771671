import fs from 'node:fs';
import { readConfig } from '../control-plane/config.ts';
import { createTenant as create } from '../control-plane/keys/create-tenant.ts';

/** `sallyport admin create-tenant NAME`: prints the first owner key of a new tenant, once. */
export async function createTenant(name: string): Promise<number> {
  const config = readConfig({
    env: process.env,
    readFile: (path) => fs.readFileSync(path, 'utf8'),
  });
  const { tenantId, key } = await create(config, name);
  console.log(`Tenant ${tenantId} is ready. Its owner key, shown this once:\n\n  ${key}\n`);
  return 0;
}
