import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Registry } from 'prom-client';
import { listenError } from '../../shared/base/listen-error.ts';
import type { Readiness } from './readiness.ts';

interface AdminOptions {
  readonly port: number;
  readonly host: string;
  readonly registry: Registry;
  /** The local authority's certificate. */
  readonly caPem: string;
  readonly ready: () => Promise<Readiness>;
}

export interface Admin {
  readonly port: number;
  close(): Promise<void>;
}

/**
 * Serves the admin port: `/healthz` (alive), `/readyz` (fresh snapshot), `/metrics` and `/ca.crt`;
 * GET only.
 */
export async function createAdmin(options: AdminOptions): Promise<Admin> {
  const server = createServer({ requestTimeout: 10_000, headersTimeout: 5_000 }, (req, res) => {
    answer(req, options).then(
      (page) => send(res, page),
      () => send(res, json(500, { error: 'The page could not be made.' })),
    );
  });
  server.listen(options.port, options.host);
  await once(server, 'listening').catch((error: Error) => {
    throw listenError(error, {
      ...options,
      hostSetting: 'SALLYPORT_PROXY_ADMIN_HOST',
      portSetting: 'SALLYPORT_PROXY_ADMIN_PORT',
    });
  });
  const { port } = server.address() as AddressInfo;
  return {
    port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

interface Page {
  readonly status: number;
  readonly type: string;
  readonly text: string;
}

async function answer({ method, url }: IncomingMessage, options: AdminOptions): Promise<Page> {
  if (method !== 'GET' && method !== 'HEAD')
    return json(405, { error: 'This port answers GET only.' });
  switch (url) {
    case '/healthz':
      return json(200, { status: 'ok' });
    case '/readyz': {
      const { ready, code, reasons } = await options.ready();
      return json(ready ? 200 : 503, { ready, code, reasons });
    }
    case '/metrics':
      return {
        status: 200,
        type: options.registry.contentType,
        text: await options.registry.metrics(),
      };
    case '/ca.crt':
      return { status: 200, type: 'application/x-pem-file', text: options.caPem };
    default:
      return json(404, { error: 'Here are /healthz, /readyz, /metrics and /ca.crt.' });
  }
}

function json(status: number, body: object): Page {
  return { status, type: 'application/json', text: JSON.stringify(body) };
}

function send(res: ServerResponse, { status, type, text }: Page): void {
  res.writeHead(status, {
    'content-type': type,
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
  });
  res.end(text);
}
