import { createServer } from 'node:https';
import type { AddressInfo, Server as NetServer } from 'node:net';
import type { SecureContextOptions } from 'node:tls';

/** A request as the payments API saw it. */
interface SeenRequest {
  readonly method: string;
  readonly path: string;
  readonly authorization: string | undefined;
  readonly body: string;
}

/** A small payments API over HTTPS that knows nothing of Sallyport and records its requests. */
export interface PaymentsApi {
  readonly port: number;
  readonly seen: readonly SeenRequest[];
  close(): Promise<void>;
}

/** Starts the API on loopback; it accepts only calls with the given secret. */
export async function startPaymentsApi(
  tls: SecureContextOptions,
  secret: string,
): Promise<PaymentsApi> {
  const seen: SeenRequest[] = [];
  const server = createServer(tls, (req, res) => {
    const chunks: Buffer[] = [];
    req.on('data', (chunk: Buffer) => chunks.push(chunk));
    req.on('end', () => {
      const { authorization } = req.headers;
      const body = Buffer.concat(chunks).toString('utf8');
      seen.push({ method: req.method ?? '', path: req.url ?? '', authorization, body });
      const known = authorization === `Bearer ${secret}`;
      res.writeHead(known ? 200 : 401, { 'content-type': 'application/json' });
      res.end(JSON.stringify(known ? answer(req.url ?? '', body) : { error: 'invalid token' }));
    });
  });
  const port = await listen(server);
  return { port, seen, close: () => close(server) };
}

function answer(path: string, body: string): object {
  const id = path.split('/').at(-1);
  return body === ''
    ? { payment_id: id, amount: 900, currency: 'EUR', status: 'settled' }
    : { refund_id: 're_1', ...(JSON.parse(body) as object), status: 'refunded' };
}

/** Starts a stand-in for the agent's model provider, which streams a few tokens as SSE. */
export async function startModelApi(
  tls: SecureContextOptions,
): Promise<{ readonly port: number; close(): Promise<void> }> {
  const server = createServer(tls, (req, res) => {
    req.resume();
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const token of ['I', 'would', 'refund', 'it'])
      res.write(`data: ${JSON.stringify({ token })}\n\n`);
    res.end('data: [DONE]\n\n');
  });
  return { port: await listen(server), close: () => close(server) };
}

export async function listen(server: NetServer): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
  return (server.address() as AddressInfo).port;
}

export async function close(server: {
  close(done: () => void): unknown;
  closeAllConnections(): void;
}): Promise<void> {
  await new Promise<void>((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
