import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freshDatabase } from '../support/programs/postgres.ts';
import { startProgram } from '../support/programs/processes.ts';

let database: Awaited<ReturnType<typeof freshDatabase>>;
let dataDir: string;
const busy = createServer();
beforeAll(async () => {
  database = await freshDatabase();
  dataDir = mkdtempSync(join(tmpdir(), 'sallyport-start-'));
  await once(busy.listen(0, '127.0.0.1'), 'listening');
});
afterAll(async () => {
  busy.close();
  await rm(dataDir, { recursive: true });
  await database.drop();
});

const secret = 'hunter2hunter2';
const masterKey = randomBytes(32).toString('base64');

describe('a control plane', () => {
  it.each<[what: string, env: () => Record<string, string>, says: RegExp]>([
    [
      'with an unreachable database',
      () => ({ DATABASE_URL: `postgresql://u:${secret}@127.0.0.1:1/x` }),
      /The database cannot be used: .*Check DATABASE_URL/,
    ],
    [
      'with a malformed bus URL',
      () => ({ REDIS_URL: secret }),
      /REDIS_URL: must begin with redis:/,
    ],
    [
      'with a port in use',
      () => ({ SALLYPORT_API_PORT: String((busy.address() as AddressInfo).port) }),
      /Port \d+ on 127\.0\.0\.1 is in use by another program.*SALLYPORT_API_PORT/,
    ],
    [
      'with a master key that is not that of its database',
      () => ({
        SALLYPORT_MASTER_KEY: Buffer.from(secret.repeat(3).slice(0, 32)).toString('base64'),
      }),
      /wrapped by the master key kek_\w+, which is not configured\. Set SALLYPORT_MASTER_KEY/,
    ],
    [
      'with a malformed master key',
      () => ({ SALLYPORT_MASTER_KEY: secret }),
      /SALLYPORT_MASTER_KEY must be base64/,
    ],
    [
      'with development keys in production',
      () => ({ NODE_ENV: 'production', SALLYPORT_DEV_KEYS: `apk_${secret}=t:owner:tenant` }),
      /SALLYPORT_DEV_KEYS is for development/,
    ],
    ['with a malformed setting', () => ({ SALLYPORT_API_PROT: '1' }), /mean SALLYPORT_API_PORT/],
  ])('%s exits with code 1 and prints the reason, without a secret', async (_what, env, says) => {
    const program = startProgram('control-plane/main.ts', {
      DATABASE_URL: database.url,
      SALLYPORT_MASTER_KEY: masterKey,
      SALLYPORT_API_PORT: '0',
      SALLYPORT_DATA_DIR: dataDir,
      ...env(),
    });
    expect(await program.exited()).toBe(1);
    expect(program.output()).toMatch(says);
    expect(program.output()).not.toContain(secret);
    expect(program.output()).not.toMatch(/\n {4}at /);
  });
});
