import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Registry } from 'prom-client';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createAdminApp } from '../../../../control-plane/admin-app.ts';
import { answerReady } from '../../../../control-plane/platform/http/health.ts';
import { watchDisk } from '../../../../control-plane/platform/store/disk.ts';
import { silentLog } from '../../../../shared/base/log.ts';
import { until } from '../../../support/base/until.ts';
import { testServices } from '../../../support/control-plane/services.ts';
import { type SmallDisk, smallDisk } from '../../../support/programs/small-disk.ts';

let disk: SmallDisk;
let stop: () => Promise<void>;
let origin: string;
let watch: ReturnType<typeof watchDisk>;
beforeAll(async () => {
  disk = smallDisk();
  const services = await testServices();
  watch = watchDisk(disk.folder, silentLog);
  const app = createAdminApp(new Registry(), answerReady(services, { disk: watch }));
  const server = createServer(app).listen(0, '127.0.0.1');
  await once(server, 'listening');
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  stop = async () => {
    watch.close();
    server.closeAllConnections();
    server.close();
    await services.close();
  };
});
afterAll(async () => {
  await stop?.();
  disk?.close();
});

async function ready() {
  const response = await fetch(`${origin}/readyz`);
  const { checks } = (await response.json()) as { checks: { name: string; ok: boolean }[] };
  const failed = checks.filter(({ ok }) => !ok).map(({ name }) => name);
  return { status: response.status, failed };
}

it('readiness fails while the disk of an embedded database is full, and recovers afterwards', async () => {
  const isDiskReady = async () => !(await ready()).failed.includes('disk');
  await until(isDiskReady, { withinMs: 60_000 });
  disk.fill();
  expect(await watch.freeBytes()).toBe(0);
  await until(async () => !(await isDiskReady()), { withinMs: 60_000 });
  expect((await ready()).status).toBe(503);
  disk.free();
  await until(isDiskReady, { withinMs: 60_000 });
});
