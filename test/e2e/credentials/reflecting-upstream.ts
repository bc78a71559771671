import type { Socket } from 'node:net';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { rawUpstream } from '../../proxy/upstream/raw-upstream.ts';
import type { Cleanup } from '../../support/sidecar/proxy.ts';

const whole = (lines: string, body: string | Buffer) =>
  Buffer.concat([
    Buffer.from(`HTTP/1.1 ${lines}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n`),
    Buffer.from(body),
  ]);
const text = 'Content-Type: text/plain';
const chunk = (part: string) => `${Buffer.byteLength(part).toString(16)}\r\n${part}\r\n`;

/** Ways in which an upstream returns a secret; each way is served under a path of the same name. */
export const reflections: Readonly<Record<string, (secret: string) => Buffer | readonly string[]>> =
  {
    body: (secret) => whole(`200 OK\r\n${text}`, `you sent ${secret}.`),
    error: (secret) => whole(`500 Oops\r\n${text}`, `cannot verify ${secret}`),
    header: (secret) => whole(`200 OK\r\nX-Echo: ${secret}`, 'ok'),
    redirect: (secret) =>
      whole(`302 Found\r\nLocation: https://evil.test/?k=${encodeURIComponent(secret)}`, ''),
    cookie: (secret) =>
      whole(`200 OK\r\nSet-Cookie: t=${Buffer.from(secret).toString('base64')}`, ''),
    base64: (secret) => whole(`200 OK\r\n${text}`, Buffer.from(`x${secret}`).toString('base64url')),
    hex: (secret) => whole(`200 OK\r\n${text}`, Buffer.from(secret).toString('hex')),
    percent: (secret) => whole(`200 OK\r\n${text}`, encodeURIComponent(secret)),
    json: (secret) =>
      whole(
        '200 OK\r\nContent-Type: application/json',
        `{"a":"${secret.replace(/./gs, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`)}"}`,
      ),
    html: (secret) =>
      whole(
        '200 OK\r\nContent-Type: text/html',
        `<b>${secret.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')}</b>`,
      ),
    gzip: (secret) => whole(`200 OK\r\n${text}\r\nContent-Encoding: gzip`, gzipSync(secret)),
    zstd: (secret) =>
      whole(`200 OK\r\n${text}\r\nContent-Encoding: zstd`, zstdCompressSync(secret)),
    chunks: (secret) => [
      `HTTP/1.1 200 OK\r\n${text}\r\nTransfer-Encoding: chunked\r\n\r\n`,
      ...Array.from(secret, chunk),
      '0\r\n\r\n',
    ],
    events: (secret) => [
      'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n',
      chunk('data: begin\n\n'),
      chunk(`data: ${secret}\n\n`),
    ],
  };

/** Responses with the secret in a part that never reaches an agent. */
export const droppedWays: typeof reflections = {
  reason: (secret) => whole(`200 ${secret}\r\n${text}`, 'ok'),
  trailer: (secret) => [
    `HTTP/1.1 200 OK\r\n${text}\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n`,
    chunk('ok'),
    `0\r\nX-T: ${secret}\r\n\r\n`,
  ],
  hints: (secret) => [
    `HTTP/1.1 103 Early Hints\r\nLink: <${encodeURI(secret)}>; rel=preload\r\nX: ${secret}\r\n\r\n`,
    `HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok`,
  ],
};

/**
 * An upstream that stores the head of every request; the last segment of the path selects the
 * response.
 */
export async function reflectingUpstream(cleanup: Cleanup, secret: string) {
  const heads: string[] = [];
  const ways = { ...reflections, ...droppedWays };
  const port = await rawUpstream(cleanup, (socket, head) => {
    heads.push(head);
    const path = /^\S+ ([^ ?]+)/.exec(head)?.[1] ?? '';
    const [, status, location] = /^\/go\/(\d+)\/(.+)$/.exec(path) ?? [];
    if (status !== undefined) {
      socket.write(
        whole(
          `${status} Moved\r\nLocation: ${Buffer.from(location ?? '', 'base64url').toString()}`,
          '',
        ),
      );
      return;
    }
    const answer = ways[path.split('/').at(-1) ?? '']?.(secret) ?? whole('200 OK', 'fine');
    void send(socket, answer);
  });
  return { port, heads };
}

/** Sends each part in its own packet. */
async function send(socket: Socket, answer: Buffer | readonly string[]): Promise<void> {
  for (const part of Buffer.isBuffer(answer) ? [answer] : answer) {
    if (!socket.destroyed) socket.write(part);
    await new Promise((resolve) => setImmediate(resolve));
  }
}
