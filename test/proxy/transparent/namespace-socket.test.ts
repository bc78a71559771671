import { once } from 'node:events';
import fs from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { descriptorOf, sendDescriptors } from '../../../proxy/transparent/descriptors.ts';
import {
  namespaceGreeting,
  namespaceSocketName,
  openNamespaceSocket,
} from '../../../proxy/transparent/namespace-socket.ts';
import { silentLog } from '../../../shared/base/log.ts';
import { Cleanup, listening, temporaryFolder } from '../../support/sidecar/proxy.ts';

const cleanup = new Cleanup();
let path: string;
let served = 0;

beforeAll(async () => {
  // This path is longer than the address of a Unix socket can be.
  const dataDir = join(temporaryFolder(cleanup), 'd'.repeat(120));
  fs.mkdirSync(dataDir);
  path = join(dataDir, namespaceSocketName);
  const close = await openNamespaceSocket({
    dataDir,
    caSha256: 'sha256:1',
    serve: async () => {
      served += 1;
      return async () => {};
    },
    log: silentLog,
  });
  cleanup.add(() => close());
});
afterAll(() => cleanup.run());

async function client(): Promise<Socket> {
  const folder = fs.openSync(join(path, '..'), 'r');
  const socket = connect(`/proc/self/fd/${folder}/${namespaceSocketName}`);
  await once(socket, 'connect');
  // The sidecar closes a refused connection before it has read all bytes, which resets the
  // connection.
  socket.on('error', () => {});
  fs.closeSync(folder);
  cleanup.add(() => socket.destroy());
  return socket;
}

async function answer(socket: Socket): Promise<unknown> {
  const [line] = (await once(socket, 'data')) as [Buffer];
  return JSON.parse(line.toString());
}

it('the namespace socket is open only to the sidecar’s user', () => {
  expect(fs.statSync(path).mode & 0o777).toBe(0o600);
});

it.each(['GET / HTTP/1.1\r\n\r\n', 'x'.repeat(1_000), `${namespaceGreeting}!`])(
  'the namespace socket refuses a client that begins with %j',
  async (text) => {
    const socket = await client();
    socket.write(text);
    expect(await answer(socket)).toEqual({ error: 'run.isolation_greeting_invalid' });
  },
);

it('the namespace socket refuses a greeting without descriptors', async () => {
  const socket = await client();
  socket.write(namespaceGreeting);
  expect(await answer(socket)).toEqual({ error: 'run.isolation_sockets_invalid' });
});

it.each([1, 2, 3, 6])(
  'the namespace socket refuses %d descriptors that are not the expected sockets',
  async (count) => {
    const server = createServer();
    await listening(server, cleanup);
    const socket = await client();
    const descriptors = Array.from({ length: count }, () => descriptorOf(server));
    sendDescriptors(socket, { text: namespaceGreeting, descriptors });
    expect(await answer(socket)).toEqual({ error: 'run.isolation_sockets_invalid' });
    expect(served).toBe(0);
  },
);

it('the namespace socket refuses more descriptors than there are sockets for IPv4 and IPv6', async () => {
  const server = createServer();
  await listening(server, cleanup);
  const socket = await client();
  const descriptors = Array.from({ length: 20 }, () => descriptorOf(server));
  sendDescriptors(socket, { text: namespaceGreeting, descriptors });
  expect(await answer(socket)).toEqual({ error: 'run.isolation_greeting_invalid' });
});
