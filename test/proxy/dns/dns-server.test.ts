import { createSocket } from 'node:dgram';
import { Resolver } from 'node:dns/promises';
import { once } from 'node:events';
import { connect } from 'node:net';
import { decode, encode, type Packet } from 'dns-packet';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type DnsServer, startDnsServer } from '../../../proxy/dns/dns-server.ts';
import { SyntheticNames } from '../../../proxy/dns/synthetic-names.ts';
import { seeded } from '../../support/base/seeded.ts';

const names = new SyntheticNames();
const rcodes: string[] = [];
const resolver = new Resolver({ timeout: 5_000, tries: 1 });
let server: DnsServer;

beforeAll(async () => {
  const onQuery = (rcode: string) => rcodes.push(rcode);
  server = await startDnsServer({ names, port: 0, hosts: ['127.0.0.1', '::1'], onQuery });
  resolver.setServers([`127.0.0.1:${server.port}`]);
});
afterAll(() => server.close());

function query(parts: Partial<Packet> = {}): Buffer {
  const questions: Packet['questions'] = [{ type: 'A', class: 'IN', name: 'api.example' }];
  return encode({ type: 'query', id: 7, flags: 0x100, questions, ...parts });
}

async function overUdp(message: Buffer, host = '127.0.0.1'): Promise<Buffer> {
  const socket = createSocket(host.includes(':') ? 'udp6' : 'udp4');
  socket.send(message, server.port, host);
  const [response] = (await once(socket, 'message')) as [Buffer];
  socket.close();
  return response;
}

/**
 * Returns everything that the server sends until it closes, or until `count` messages have arrived.
 */
async function overTcp(bytes: Buffer, count: number): Promise<Buffer[]> {
  const socket = connect(server.port, '127.0.0.1');
  let received = Buffer.alloc(0);
  const messages: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += 5) socket.write(bytes.subarray(at, at + 5));
  for await (const chunk of socket) {
    received = Buffer.concat([received, chunk as Buffer]);
    while (received.length >= 2 && received.length >= 2 + received.readUInt16BE(0)) {
      messages.push(received.subarray(2, 2 + received.readUInt16BE(0)));
      received = received.subarray(2 + received.readUInt16BE(0));
    }
    if (messages.length >= count) break;
  }
  socket.destroy();
  return messages;
}

const framed = (message: Buffer) => {
  const length = Buffer.alloc(2);
  length.writeUInt16BE(message.length);
  return Buffer.concat([length, message]);
};
const rcodeOf = (message: Buffer) => message.readUInt16BE(2) & 15;

describe('the DNS server of the sidecar', () => {
  it('answers A and AAAA with synthetic addresses, which belong to the queried name', async () => {
    const [ipv4] = await resolver.resolve4('API.Example', { ttl: true });
    const [ipv6 = ''] = await resolver.resolve6('api.example');
    expect(names.nameOf(ipv4?.address ?? '')).toBe('api.example');
    expect(names.nameOf(ipv6)).toBe('api.example');
    expect(ipv4?.ttl).toBeLessThanOrEqual(10);
  });

  it('answers PTR of a synthetic address with the name, and NXDOMAIN for other addresses', async () => {
    const [ipv4 = ''] = await resolver.resolve4('named.example');
    const [ipv6 = ''] = await resolver.resolve6('named.example');
    expect(await resolver.reverse(ipv4)).toEqual(['named.example']);
    expect(await resolver.reverse(ipv6)).toEqual(['named.example']);
    await expect(resolver.reverse('192.0.2.1')).rejects.toMatchObject({ code: 'ENOTFOUND' });
  });

  it('answers localhost with loopback', async () => {
    expect(await resolver.resolve4('localhost')).toEqual(['127.0.0.1']);
    expect(await resolver.resolve6('a.localhost')).toEqual(['::1']);
  });

  it.each([
    ['MX', 'mail.example'],
    ['TXT', 'text.example'],
    ['SRV', '_http._tcp.api.example'],
    ['NS', 'zone.example'],
    ['CAA', 'api.example'],
  ] as const)('answers %s with no records', async (type, name) => {
    await expect(resolver.resolve(name, type)).rejects.toMatchObject({ code: 'ENODATA' });
  });

  it('answers HTTPS and SVCB with no records, so that no client gets keys for ECH', async () => {
    for (const type of [64, 65]) {
      const asked = query();
      asked.writeUInt16BE(type, asked.length - 4);
      const response = decode(await overUdp(asked));
      expect(response.answers).toEqual([]);
      expect(rcodeOf(await overUdp(asked))).toBe(0);
    }
  });

  it.each(['use-application-dns.net', '10.0.0.1', '127.1', '0x7f.1', 'a b.example'])(
    'answers NXDOMAIN for %s',
    async (name) => {
      const asked = query({ questions: [{ type: 'A', class: 'IN', name }] });
      expect(rcodeOf(await overUdp(asked))).toBe(3);
    },
  );

  it('copies the id, the question and the RD bit of the query, and answers EDNS with EDNS', async () => {
    const opt = { type: 'OPT', name: '.', udpPayloadSize: 4096, extendedRcode: 0, ednsVersion: 0 };
    const asked = query({
      additionals: [{ ...opt, flags: 0, flag_do: false, options: [] } as never],
    });
    const response = decode(await overUdp(asked, '::1'));
    expect(response).toMatchObject({ id: 7, flag_qr: true, flag_rd: true, flag_ra: true });
    expect(response.questions).toMatchObject([{ name: 'api.example', type: 'A' }]);
    expect(response.additionals).toMatchObject([{ type: 'OPT' }]);
  });

  it('answers TCP queries in their order, even if they arrive in pieces', async () => {
    const asked = [1, 2, 3].map((id) => framed(query({ id })));
    const responses = await overTcp(Buffer.concat(asked), 3);
    expect(responses.map((response) => decode(response).id)).toEqual([1, 2, 3]);
  });

  it('answers a query that it cannot read with FORMERR, and other operations with NOTIMP', async () => {
    const broken = query().subarray(0, 20);
    expect(rcodeOf(await overUdp(broken))).toBe(1);
    expect(rcodeOf(await overUdp(query({ questions: [] })))).toBe(1);
    const question = { type: 'A', class: 'IN', name: 'a.example' } as const;
    expect(rcodeOf(await overUdp(query({ questions: [question, question] })))).toBe(1);
    const update = query();
    update.writeUInt16BE(5 << 11, 2);
    expect(rcodeOf(await overUdp(update))).toBe(4);
  });

  it('does not answer responses, empty messages or noise', async () => {
    const socket = createSocket('udp4');
    const received: Buffer[] = [];
    socket.on('message', (message) => received.push(message));
    const response = query();
    response.writeUInt16BE(0x8180, 2);
    for (const message of [response, Buffer.alloc(0), Buffer.alloc(11, 255)])
      socket.send(message, server.port, '127.0.0.1');
    socket.send(query({ id: 99 }), server.port, '127.0.0.1');
    await once(socket, 'message');
    socket.close();
    expect(received.map((message) => message.readUInt16BE(0))).toEqual([99]);
  });

  it('survives random messages', async () => {
    const next = seeded(1);
    const random = () => Math.floor(next() * 256);
    const socket = createSocket('udp4');
    for (let round = 0; round < 2_000; round++) {
      const message = query({ id: round });
      const flips = 1 + (random() % 6);
      for (let flip = 0; flip < flips; flip++) message[random() % message.length] = random();
      socket.send(message, server.port, '127.0.0.1');
    }
    socket.close();
    expect(decode(await overUdp(query())).answers).toHaveLength(1);
  });

  it('reports each response code', () => {
    expect(new Set(rcodes)).toEqual(new Set(['NOERROR', 'NXDOMAIN', 'FORMERR', 'NOTIMP']));
  });
});
