import { once } from 'node:events';
import type { RequestListener, Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Registry } from 'prom-client';
import { listenError } from '../shared/base/listen-error.ts';
import { gauge } from '../shared/base/observed-metric.ts';
import { createAdminApp } from './admin-app.ts';
import { createApp } from './app.ts';
import type { Services } from './core/services.ts';
import { defaultLimits } from './platform/http/budget.ts';
import { answerReady } from './platform/http/health.ts';
import { createHttpServer } from './platform/http/server.ts';
import { watchDisk } from './platform/store/disk.ts';
import { allRoutes } from './routes.ts';

interface Serving {
  readonly server: Server;
  /** Ports in use: the API's port and, if set, the admin port. */
  readonly ports: readonly number[];
  close(): Promise<void>;
}

/** Serves the API and, on the admin port if set, metrics and detailed readiness. */
export async function serve(services: Services, registry: Registry): Promise<Serving> {
  const { config, log } = services;
  const limits = {
    requestsPerMinute: { ...defaultLimits.requestsPerMinute, tenant: config.requestsPerMinute },
  };
  // Watches the disk only for an embedded database: an external one has its own monitoring.
  const disk = config.databaseUrl === undefined ? watchDisk(config.dataDir, log) : undefined;
  if (disk !== undefined) {
    const help = 'Free bytes on the volume of the embedded database';
    gauge(registry, { name: 'sallyport_data_free_bytes', help }, () => disk.freeBytes());
  }
  const isAdminApart = config.adminPort !== undefined;
  const options = { limits, registry, disk, isAdminApart };
  const server = await listen(createApp(allRoutes(services), services, options), {
    host: config.apiHost,
    port: config.apiPort,
    portSetting: 'SALLYPORT_API_PORT',
  });
  const servers = [server];
  const close = async () => {
    disk?.close();
    await Promise.all(servers.map(closeServer));
  };
  if (config.adminPort !== undefined) {
    const app = createAdminApp(registry, answerReady(services, { disk }));
    const where = { host: config.apiHost, port: config.adminPort };
    const portSetting = 'SALLYPORT_API_ADMIN_PORT';
    servers.push(
      await listen(app, { ...where, portSetting }).catch(async (error) => {
        await close();
        throw error;
      }),
    );
  }
  return { server, ports: servers.map((one) => (one.address() as AddressInfo).port), close };
}

interface Where {
  readonly host: string;
  readonly port: number;
  readonly portSetting: string;
}

async function listen(app: RequestListener, { host, port, portSetting }: Where): Promise<Server> {
  const server = createHttpServer(app);
  server.listen(port, host);
  await once(server, 'listening').catch((error: Error) => {
    throw listenError(error, { host, port, hostSetting: 'SALLYPORT_API_HOST', portSetting });
  });
  return server;
}

/** Lets requests in flight finish for a limited time, then closes all connections. */
async function closeServer(server: Server): Promise<void> {
  const closed = once(server, 'close');
  server.close();
  // Closes idle connections repeatedly, because each request that finishes leaves one.
  const sweep = setInterval(() => server.closeIdleConnections(), 50);
  const timer = setTimeout(() => server.closeAllConnections(), 5_000);
  await closed;
  clearInterval(sweep);
  clearTimeout(timer);
}
