import type { LookupAddress } from 'node:dns';
import { createServer } from 'node:net';
import { networkInterfaces } from 'node:os';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createGuard, literalRefusal } from '../../../shared/upstream/address-guard.ts';
import { dialTcp } from '../../../shared/upstream/dial.ts';
import { Cleanup, httpUpstream, listening, raw, startProxy } from '../../support/sidecar/proxy.ts';

let cleanup: Cleanup;
beforeEach(() => {
  cleanup = new Cleanup();
});
afterEach(() => cleanup.run());

/** A fake resolver. It returns each answer once, and repeats the last one. */
function resolver(answers: Record<string, string[][]>) {
  const asked: string[] = [];
  const resolve = (
    hostname: string,
    _options: unknown,
    callback: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
  ) => {
    asked.push(hostname);
    const list = answers[hostname] ?? [[]];
    const addresses = (list.length > 1 ? list.shift() : list[0]) ?? [];
    callback(
      null,
      addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
    );
  };
  return { resolve, asked };
}

function lookup(guard: ReturnType<typeof createGuard>, host: string, all = true): Promise<unknown> {
  return new Promise((resolve, reject) => {
    guard.lookup(80)(host, { all }, (error, address) => (error ? reject(error) : resolve(address)));
  });
}

describe('a host name', () => {
  it('is refused if any of its addresses is refused', async () => {
    const { resolve } = resolver({
      'mixed.example': [['8.8.8.8', '127.0.0.1']],
      'mixed6.example': [['8.8.8.8', '::1']],
    });
    const guard = createGuard({ allowPrivate: [], resolve });
    await expect(lookup(guard, 'mixed.example')).rejects.toMatchObject({
      code: 'proxy.address_refused',
    });
    await expect(lookup(guard, 'mixed6.example')).rejects.toMatchObject({
      code: 'proxy.address_refused',
    });
  });

  it.each(['169.254.169.254', 'fe80::1', '::ffff:169.254.169.254', 'fd00:ec2::254'])(
    'is refused in any configuration if it resolves to %s',
    async (address) => {
      const { resolve } = resolver({ 'meta.example': [[address]] });
      const guard = createGuard({ allowPrivate: ['0.0.0.0/0', '::/0'], resolve });
      await expect(lookup(guard, 'meta.example')).rejects.toMatchObject({
        code: 'proxy.address_refused',
      });
    },
  );

  it('is reported as unknown if it has no address', async () => {
    const guard = createGuard({ allowPrivate: [], resolve: resolver({}).resolve });
    await expect(lookup(guard, 'nowhere.example')).rejects.toMatchObject({ code: 'ENOTFOUND' });
  });

  it('is resolved to one address or to a list of addresses, as the socket requests', async () => {
    const { resolve } = resolver({ 'ok.example': [['8.8.8.8', '1.1.1.1']] });
    const guard = createGuard({ allowPrivate: [], resolve });
    expect(await lookup(guard, 'ok.example', false)).toBe('8.8.8.8');
    expect(await lookup(guard, 'ok.example')).toHaveLength(2);
  });

  it('is resolved only once per connection, to prevent DNS rebinding', async () => {
    const port = await httpUpstream(cleanup, (_req, res) => res.end('secret'));
    const { resolve, asked } = resolver({ 'rebind.example': [['203.0.113.1'], ['127.0.0.1']] });
    const guard = createGuard({ allowPrivate: ['203.0.113.1'], resolve });
    const proxy = await startProxy(cleanup, { guard, timeouts: { connectMs: 300 } });
    const request = `GET http://rebind.example:${port}/ HTTP/1.1\r\nHost: rebind.example:${port}\r\nConnection: close\r\n\r\n`;
    expect(await raw(proxy.port, request)).not.toContain('secret');
    expect(asked).toHaveLength(1);
    expect(await raw(proxy.port, request)).toContain('proxy.address_refused');
  });
});

describe('a redirect', () => {
  it.each([
    '169.254.169.254',
    '[::ffff:169.254.169.254]',
    '[64:ff9b::a9fe:a9fe]',
    '[2002:a9fe:a9fe::1]',
    '[fe80::1]',
    '10.0.0.1',
    '0.0.0.0',
    '224.0.0.1',
    '[ff02::1]',
    'inside.example',
  ])(
    'to the host %s is returned to the agent, and the request is refused if the agent follows the redirect',
    async (host) => {
      const { resolve } = resolver({ 'inside.example': [['10.0.0.1']] });
      const guard = createGuard({ allowPrivate: ['127.0.0.0/8'], resolve });
      const proxy = await startProxy(cleanup, { guard });
      const port = await httpUpstream(cleanup, (_req, res) =>
        res.writeHead(307, { location: `http://${host}/latest/meta-data` }).end(),
      );
      const get = (at: string) =>
        raw(proxy.port, `GET http://${at}/ HTTP/1.1\r\nHost: ${at}\r\nConnection: close\r\n\r\n`);
      expect(await get(`127.0.0.1:${port}`)).toMatch(/^HTTP\/1\.1 307 /);
      expect(proxy.exchanges).toHaveLength(1);
      expect(await get(host)).toMatch(/^HTTP\/1\.1 403 [\s\S]*proxy\.address_refused/);
    },
  );
});

describe('Sallyport’s own ports', () => {
  it('are refused under every name and address of this machine', async () => {
    const { resolve } = resolver({ 'me.example': [['127.0.0.1']] });
    const guard = createGuard({ allowPrivate: ['0.0.0.0/0', '::/0'], resolve });
    const proxy = await startProxy(cleanup, { guard });
    const own = Object.values(networkInterfaces())
      .flatMap((list) => list ?? [])
      .filter(({ family }) => family === 'IPv4')
      .map(({ address }) => address);
    const hosts = [
      '127.0.0.1',
      '127.9.9.9',
      'localhost',
      'x.localhost',
      '0.0.0.0',
      '[::1]',
      '[::]',
      '[::ffff:127.0.0.1]',
      'me.example',
      ...own,
    ];
    for (const host of hosts) {
      const answer = await raw(
        proxy.port,
        `GET http://${host}:${proxy.port}/ HTTP/1.1\r\nHost: ${host}:${proxy.port}\r\nConnection: close\r\n\r\n`,
      );
      expect(answer, host).toContain('proxy.address_refused');
    }
    expect(guard.refusal('127.0.0.1', proxy.port + 1)).toBeUndefined();
  });
});

describe('a socket', () => {
  it('is checked even if it connects directly to an IP address', async () => {
    const server = createServer();
    const port = await listening(server, cleanup);
    const guard = createGuard({ allowPrivate: [] });
    expect(literalRefusal(guard, '127.0.0.1', port)?.code).toBe('proxy.address_refused');
    const signal = new AbortController().signal;
    await expect(
      dialTcp({ host: '127.0.0.1', port, guard, connectTimeoutMs: 1000, signal }),
    ).rejects.toMatchObject({ code: 'proxy.address_refused' });
  });

  it('is closed when its request is aborted', async () => {
    const guard = createGuard({ allowPrivate: ['203.0.113.0/24'], resolve: () => {} });
    const abort = new AbortController();
    const dialled = dialTcp({
      host: 'slow.example',
      port: 1,
      guard,
      connectTimeoutMs: 5000,
      signal: abort.signal,
    });
    abort.abort();
    await expect(dialled).rejects.toMatchObject({ code: 'ABORT_ERR' });
    await expect(
      dialTcp({
        host: 'slow.example',
        port: 1,
        guard,
        connectTimeoutMs: 20,
        signal: new AbortController().signal,
      }),
    ).rejects.toMatchObject({ code: 'ETIMEDOUT' });
  });
});

describe('a port of Sallyport', () => {
  const own = Object.values(networkInterfaces())
    .flatMap((entries) => entries ?? [])
    .find(({ family }) => family === 'IPv4');
  const hex = (address: string) =>
    Buffer.from(address.split('.').map(Number))
      .toString('hex')
      .replace(/^(.{4})/, '$1:');

  it.each(['127.0.0.1', own?.address ?? '127.0.0.2'])(
    'is refused on IPv6 addresses that contain the IPv4 address %s',
    (address) => {
      const guard = createGuard({ allowPrivate: ['0.0.0.0/0', '::/0'], ownPorts: [8080] });
      const inside = hex(address);
      const spellings = [
        `::ffff:${inside}`,
        `::ffff:0:${inside}`,
        `64:ff9b::${inside}`,
        `::${inside}`,
        `2002:${inside}::1`,
        `64:ff9b:1::${inside}`,
        `2606:4700::5efe:${inside}`,
        `2001:0:${inside}::1`,
      ];
      for (const spelling of spellings) {
        expect(guard.refusal(spelling, 8080)?.code, spelling).toBe('proxy.address_refused');
        expect(guard.isOwn(spelling, 8080), spelling).toBe(true);
        expect(guard.refusal(spelling, 8081), spelling).toBeUndefined();
      }
    },
  );
});
