// A stand-in for the sidecar's transparent listener: answers HTTP, the internal host and DNS on
// loopback. Runs as the user that its first argument names. Prints `ready`.
import { createHash } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { createServer as createTcpServer } from 'node:net';
import { decode, encode, type Packet, streamDecode, streamEncode } from 'dns-packet';
import {
  answerInternal,
  type InternalHostDeps,
} from '../../../proxy/internal-host/internal-host.ts';

const [uid = '1337', port = '15001', dnsPort = '15053'] = process.argv.slice(2);

const nothing: InternalHostDeps = {
  approval: () => undefined,
  manifest: () => ({}),
  caCertificate: () => '',
};

/** Answers every name with a synthetic address. */
function answerName(question: Packet): Packet {
  const [asked] = question.questions ?? [];
  const name = asked?.name ?? '';
  const [one = 0, two = 0] = createHash('sha256').update(name).digest();
  const data = `198.18.${one}.${two}`;
  return {
    type: 'response',
    id: question.id ?? 0,
    questions: question.questions ?? [],
    answers: asked?.type === 'A' ? [{ type: 'A', name, ttl: 5, data }] : [],
  };
}

process.setgid?.(Number(uid));
process.setuid?.(Number(uid));

for (const host of ['127.0.0.1', '::1']) {
  const http = createServer((req, res) => {
    if (req.headers.host === 'sallyport.internal') {
      answerInternal({ method: req.method ?? '', target: req.url ?? '', res }, nothing);
      return;
    }
    res.writeHead(403, { 'x-answered-by': 'stand-in' }).end();
  });
  http.listen(Number(port), host);
  await once(http, 'listening');

  const tcp = createTcpServer((socket) => {
    let received = Buffer.alloc(0);
    socket.on('error', () => {});
    socket.on('data', (chunk) => {
      received = Buffer.concat([received, chunk]);
      if (received.length < 2 || received.length < 2 + received.readUInt16BE()) return;
      socket.write(streamEncode(answerName(streamDecode(received))));
    });
  });
  tcp.listen(Number(dnsPort), host);
  await once(tcp, 'listening');

  const udp = createSocket(host === '::1' ? 'udp6' : 'udp4');
  udp.on('message', (message, { address, port: from }) => {
    // The send fails if the kernel drops the answer to a forged source address.
    udp.send(encode(answerName(decode(message))), from, address, () => {});
  });
  udp.bind(Number(dnsPort), host);
  await once(udp, 'listening');
}
console.log('ready');
