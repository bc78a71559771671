import type { AddressInfo } from 'node:net';
import { connect } from 'node:net';
import { text as readAll } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createHttpServer } from '../../../../control-plane/platform/http/server.ts';

const server = createHttpServer((_req, res) => res.end('ok'), {
  headersMs: 300,
  requestMs: 600,
  keepAliveMs: 300,
  headerBytesMax: 4_096,
});
let port: number;

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  port = (server.address() as AddressInfo).port;
});

afterAll(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

/**
 * Sends bytes and nothing more; resolves with the response when the server has closed the
 * connection.
 */
function sendAndWait(bytes: string): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  socket.write(bytes);
  return readAll(socket);
}

it('a connection is aborted if the request head never ends', async () => {
  const answer = await sendAndWait('GET / HTTP/1.1\r\nhost: x\r\nx-slow: ');
  expect(answer).toMatch(/^HTTP\/1.1 408 /);
  expect(answer).toContain('"reason_code":"request.invalid"');
});

it('an idle connection is closed after a timeout', async () => {
  const answer = await sendAndWait('GET / HTTP/1.1\r\nhost: x\r\n\r\n');
  expect(answer).toMatch(/^HTTP\/1.1 200 /);
});

it.each([
  ['invalid HTTP', 'SSH-2.0-client\r\n\r\n', 400],
  ['a request without Host', 'GET / HTTP/1.1\r\n\r\n', 400],
  [
    'both Content-Length and Transfer-Encoding',
    'POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
    400,
  ],
  [
    'a head larger than the limit',
    `GET / HTTP/1.1\r\nhost: x\r\nx: ${'a'.repeat(5_000)}\r\n\r\n`,
    431,
  ],
])('%s is refused, and the connection is closed', async (_what, bytes, status) => {
  expect(await sendAndWait(bytes)).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
});
