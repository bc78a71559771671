import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { listenError } from '../../shared/base/listen-error.ts';
import type { Log } from '../../shared/base/log.ts';
import { GatewayError, toGatewayError } from '../../shared/errors/gateway-error.ts';
import type { Injection } from '../pod/injection.ts';
import { answer, tasks } from './answer.ts';
import type { InjectorMetrics } from './metrics.ts';
import { parseReview } from './review.ts';

// A review of an update contains two pods, and etcd stores at most 1.5 MB for each.
const bodyBytesMax = 8 * 1024 ** 2;
const requestMs = 10_000;

interface KeyPair {
  readonly cert: string;
  readonly key: string;
}

interface WebhookOptions extends KeyPair {
  readonly host: string;
  readonly port: number;
  readonly injection: Injection;
  readonly metrics: InjectorMetrics;
  readonly log: Log;
}

export interface WebhookServer {
  readonly port: number;
  /** Uses this certificate for all new connections. */
  present(pair: KeyPair): void;
  close(): Promise<void>;
}

/** The HTTPS server that the API server calls. */
export async function openWebhookServer(options: WebhookOptions): Promise<WebhookServer> {
  const { host, port, cert, key } = options;
  const limits = { requestTimeout: requestMs, headersTimeout: requestMs };
  const server = createServer({ cert, key, minVersion: 'TLSv1.2', ...limits }, (req, res) => {
    void handle(req, res, options);
  });
  server.listen(port, host);
  await once(server, 'listening').catch((error: Error) => {
    throw listenError(error, {
      host,
      port,
      hostSetting: 'SALLYPORT_INJECTOR_HOST',
      portSetting: 'SALLYPORT_INJECTOR_PORT',
    });
  });
  return {
    port: (server.address() as AddressInfo).port,
    present: (pair) => server.setSecureContext({ ...pair, minVersion: 'TLSv1.2' }),
    close: async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeIdleConnections();
      await closed;
    },
  };
}

async function handle(
  req: IncomingMessage,
  res: ServerResponse,
  options: WebhookOptions,
): Promise<void> {
  const startedMs = performance.now();
  const { status, body } = await respond(req, options);
  res.writeHead(status, {
    'content-type': 'application/json',
    'x-content-type-options': 'nosniff',
    // If a body was not read to its end, the rest would be taken for the next request.
    ...(status === 200 ? {} : { connection: 'close' }),
  });
  res.end(body);
  const path = Object.hasOwn(tasks, req.url?.split('?')[0] ?? '') ? (req.url ?? '') : 'other';
  options.metrics.answered(
    path.split('?')[0] ?? path,
    status,
    (performance.now() - startedMs) / 1000,
  );
}

async function respond(
  req: IncomingMessage,
  options: WebhookOptions,
): Promise<{ readonly status: number; readonly body: string }> {
  const { injection, log, metrics } = options;
  try {
    // The API server adds `?timeout=10s`.
    const path = req.url?.split('?')[0] ?? '';
    const task = Object.hasOwn(tasks, path) ? tasks[path] : undefined;
    if (task === undefined) throw new GatewayError('request.not_found', { message: notFound });
    if (req.method !== 'POST') throw new GatewayError('request.method_not_allowed');
    const review = parseReview(await readBody(req));
    const body = answer(review, task, { injection, log, onRefusal: metrics.refused });
    return { status: 200, body };
  } catch (thrown) {
    const error = toGatewayError(thrown);
    const { code, message, kind } = error;
    log[kind.level]({ code, err: error }, 'an admission review could not be answered');
    return { status: kind.status, body: JSON.stringify({ code, message }) };
  }
}

const notFound = `The path does not exist. Paths are ${Object.keys(tasks).join(', ')}.`;

async function readBody(req: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of req as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > bodyBytesMax) throw new GatewayError('request.body_too_large');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}
