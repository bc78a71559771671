import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { expect, it } from 'vitest';
import { acceptedBy, listens, parseSockets } from '../../../cli/network/kernel-sockets.ts';

it('reads addresses of both families, and IPv4-mapped ones as IPv4', () => {
  const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:3A99 0200000A:D431 01 00000000:00000000 00:00000000 00000000  1337        0 5
   1: 0000000000000000FFFF00000100007F:3A99 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1337        0 6
   2: B80D0120000000000000000001000000:01BB 000080FE00000000FF005450B6AD1DFE:0050 01 00000000:00000000 00:00000000 00000000     0        0 7
`;
  expect(parseSockets(table)).toEqual([
    {
      local: { address: '127.0.0.1', port: 15_001 },
      remote: { address: '10.0.0.2', port: 54_321 },
      state: '01',
      uid: 1337,
    },
    {
      local: { address: '127.0.0.1', port: 15_001 },
      remote: { address: '::', port: 0 },
      state: '0A',
      uid: 1337,
    },
    {
      local: { address: '2001:db8::1', port: 443 },
      remote: { address: 'fe80::5054:ff:fe1d:adb6', port: 80 },
      state: '01',
      uid: 0,
    },
  ]);
});

it.each(['127.0.0.1', '::1'])(
  'finds the user who listens and the user who accepted a connection on %s',
  async (host) => {
    const server = createServer().listen(0, host);
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const accepted = once(server, 'connection') as Promise<[Socket]>;
    const client = connect(port, host);
    const [peer] = await accepted;
    await once(client, 'connect').catch(() => {});
    const end = { address: client.localAddress ?? '', port: client.localPort ?? 0 };
    const uid = process.getuid?.() ?? -1;
    expect(acceptedBy(end, port)).toBe(uid);
    expect(acceptedBy(end, port + 1)).toBeUndefined();
    expect(listens('tcp', { uid, port })).toBe(true);
    expect(listens('tcp', { uid: uid + 1, port })).toBe(false);
    expect(listens('udp', { uid, port })).toBe(false);
    client.destroy();
    peer.destroy();
    server.close();
  },
);
