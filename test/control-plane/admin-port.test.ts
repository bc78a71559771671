import { expect, it } from 'vitest';
import { freshDatabase } from '../support/programs/postgres.ts';
import { freePort, startProgram, until } from '../support/programs/processes.ts';
import { Cleanup, temporaryFolder } from '../support/sidecar/proxy.ts';

it('a control plane with an admin port serves metrics and readiness details on that port only', async () => {
  const cleanup = new Cleanup();
  const database = await freshDatabase();
  cleanup.add(() => database.drop());
  const dataDir = temporaryFolder(cleanup);
  const [apiPort, adminPort] = [await freePort(), await freePort()];
  const program = startProgram('control-plane/main.ts', {
    SALLYPORT_API_PORT: String(apiPort),
    SALLYPORT_API_ADMIN_PORT: String(adminPort),
    SALLYPORT_DATA_DIR: dataDir,
    SALLYPORT_MASTER_KEY: Buffer.alloc(32, 7).toString('base64'),
    DATABASE_URL: database.url,
  });
  cleanup.add(() => program.kill());
  try {
    const get = (port: number, path: string) => fetch(`http://127.0.0.1:${port}${path}`);
    await until('it is ready', async () => {
      const answer = await get(adminPort, '/readyz').catch(() => undefined);
      return answer?.status === 200;
    });
    const detail = (await (await get(adminPort, '/readyz')).json()) as { checks: unknown[] };
    expect(detail.checks.length).toBeGreaterThan(2);
    expect(await (await get(apiPort, '/readyz')).json()).toEqual({ ready: true, checks: [] });
    expect(await (await get(adminPort, '/metrics')).text()).toContain(
      'sallyport_http_requests_total',
    );
    const hidden = await get(apiPort, '/metrics');
    expect(hidden.status).toBe(404);
    expect(await hidden.text()).not.toContain('sallyport_http_requests_total');
    expect((await get(adminPort, '/api/v1/policies')).status).toBe(404);
  } finally {
    await cleanup.run();
  }
});
