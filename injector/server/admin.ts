import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Registry } from 'prom-client';
import { listenError } from '../../shared/base/listen-error.ts';

interface AdminOptions {
  readonly host: string;
  readonly port: number;
  readonly registry: Registry;
  /** The reason why reviews cannot be answered now; undefined if they can. */
  readonly unready: () => string | undefined;
}

export interface Admin {
  readonly port: number;
  close(): Promise<void>;
}

/** The admin port: `/healthz`, `/readyz` and `/metrics`. */
export async function openAdmin({ host, port, registry, unready }: AdminOptions): Promise<Admin> {
  const page = async (path: string | undefined) => {
    if (path === '/healthz') return { status: 200, text: 'ok' };
    if (path === '/metrics') return { status: 200, text: await registry.metrics() };
    if (path !== '/readyz') {
      return { status: 404, text: 'Here are /healthz, /readyz and /metrics.' };
    }
    const reason = unready();
    return { status: reason === undefined ? 200 : 503, text: reason ?? 'ok' };
  };
  const server = createServer({ requestTimeout: 10_000, headersTimeout: 5_000 }, (req, res) => {
    page(req.url).then(
      ({ status, text }) => {
        res.writeHead(status, { 'content-type': registry.contentType }).end(`${text}\n`);
      },
      () => res.writeHead(500).end(),
    );
  });
  server.listen(port, host);
  await once(server, 'listening').catch((error: Error) => {
    throw listenError(error, {
      host,
      port,
      hostSetting: 'SALLYPORT_INJECTOR_HOST',
      portSetting: 'SALLYPORT_INJECTOR_ADMIN_PORT',
    });
  });
  return {
    port: (server.address() as AddressInfo).port,
    close: async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}
