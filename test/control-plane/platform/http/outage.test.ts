import { Registry } from 'prom-client';
import { expect, it } from 'vitest';
import { keyRoutes } from '../../../../control-plane/keys/routes.ts';
import { createStateMetrics } from '../../../../control-plane/telemetry/state-metrics.ts';
import { systemClock } from '../../../../shared/base/clock.ts';
import { startApi } from '../../../support/control-plane/api.ts';
import { testServices } from '../../../support/control-plane/services.ts';
import { freshDatabase, startPostgres } from '../../../support/programs/postgres.ts';

it('while the database is unavailable, every request is refused as retryable; afterwards, requests succeed', async () => {
  const postgres = await startPostgres();
  const { url } = await freshDatabase(postgres.url);
  const services = await testServices({ databaseUrl: url });
  const api = await startApi(keyRoutes(services), services);
  const registry = new Registry();
  createStateMetrics(registry, { ...services, clock: systemClock }, 'test');
  try {
    const known = await api.key();
    const list = (key: string) => api.send('GET', '/api/v1/keys', { key });
    expect((await list(known)).status).toBe(200);
    await postgres.kill();
    // The server's child processes end a moment after the server.
    await expect.poll(async () => (await list(known)).status, { timeout: 15_000 }).not.toBe(200);
    for (const key of [known, 'apk_0123456789ABCDEFGHIJabcdefghij4VNZVQ']) {
      const answer = await list(key);
      expect([answer.status, answer.body?.reason_code]).toEqual([503, 'store.unavailable']);
      expect(answer.headers.get('retry-after')).toBe('1');
      expect(answer.text).not.toMatch(/postgres|127\.0\.0\.1|ECONN/i);
    }
    expect((await api.send('GET', '/readyz')).status).toBe(503);
    expect((await api.send('GET', '/healthz')).status).toBe(200);
    await expect
      .poll(() => registry.metrics(), { timeout: 15_000 })
      .toContain('sallyport_database_up 0');
    // The value is unknown, so no alert may fire or resolve because of it.
    expect(await registry.metrics()).toMatch(/^sallyport_outbox_events Nan$/m);
    await postgres.restart();
    await expect.poll(async () => (await list(known)).status, { timeout: 15_000 }).toBe(200);
    await expect
      .poll(() => registry.metrics(), { timeout: 15_000 })
      .toContain('sallyport_database_up 1');
  } finally {
    await api.close();
    await services.close();
    await postgres.stop();
  }
});
