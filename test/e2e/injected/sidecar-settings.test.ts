import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { until } from '../../support/base/until.ts';
import { freshDatabase } from '../../support/programs/postgres.ts';
import { answersOk } from '../../support/programs/processes.ts';
import { startRedis } from '../../support/programs/redis.ts';
import { Cleanup, temporaryFolder } from '../../support/sidecar/proxy.ts';
import { type Separate, startSeparate } from '../../support/system/separate.ts';

const cleanup = new Cleanup();
let separate: Separate;
beforeAll(async () => {
  const database = await freshDatabase();
  cleanup.add(() => database.drop());
  const redis = await startRedis();
  cleanup.add(() => redis.stop());
  separate = await startSeparate({ databaseUrl: database.url, redisUrl: redis.url });
  cleanup.add(() => separate.close());
});
afterAll(() => cleanup.run());

it('a sidecar with the settings of a pod answers probes only at the configured address, and writes the trust bundle', async () => {
  const trust = temporaryFolder(cleanup);
  const admin = `http://127.0.0.2:${new URL(separate.adminUrl).port}`;
  await separate.sidecar.kill();
  const env = {
    SALLYPORT_PROXY_ADMIN_HOST: '127.0.0.2',
    SALLYPORT_TRUST_BUNDLE_DIRECTORY: trust,
    SALLYPORT_AGENT_ID: separate.agentId,
  };
  await separate.restartSidecar({ ready: false, env });
  await until(() => answersOk(`${admin}/readyz`));
  const certificate = await (await fetch(`${admin}/ca.crt`)).text();
  expect(readFileSync(join(trust, 'ca-bundle.pem'), 'utf8')).toContain(certificate.trim());
  expect(readFileSync(join(trust, 'truststore.p12')).length).toBeGreaterThan(10_000);
  expect(await answersOk(`${separate.adminUrl}/readyz`)).toBe(false);
});

it('a sidecar refuses to start if its settings name an agent other than the one it is enrolled for', async () => {
  await separate.sidecar.kill();
  await separate.restartSidecar({ ready: false, env: { SALLYPORT_AGENT_ID: '999' } });
  expect(await separate.sidecar.exited()).toBe(1);
  expect(separate.sidecar.output()).toContain(
    `SALLYPORT_AGENT_ID is "999", and this sidecar is enrolled for agent "${separate.agentId}"`,
  );
});
