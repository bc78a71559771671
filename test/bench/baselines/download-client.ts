import { connect } from 'node:net';
import { connect as connectTls } from 'node:tls';

// Downloads PATH from the TLS server at PORT through the proxy at PROXY_PORT, and counts the bytes.
const [proxyPort, port, path = ''] = process.argv.slice(2);
const authority = `127.0.0.1:${port}`;
const socket = connect({ port: Number(proxyPort), host: '127.0.0.1' });
socket.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`);
socket.once('data', () => {
  // Certificates are not verified here, because only throughput is measured; tests verify them.
  const secure = connectTls({ socket, rejectUnauthorized: false });
  const startedAt = performance.now();
  let head = '';
  let bytes = 0;
  secure.write(`GET ${path} HTTP/1.1\r\nHost: ${authority}\r\nConnection: close\r\n\r\n`);
  secure.on('data', (chunk: Buffer) => {
    if (head.includes('\r\n\r\n')) {
      bytes += chunk.length;
      return;
    }
    head += chunk.toString('latin1');
    const end = head.indexOf('\r\n\r\n');
    if (end >= 0) bytes = head.length - end - 4;
  });
  secure.on('close', () => {
    const seconds = (performance.now() - startedAt) / 1000;
    console.log(JSON.stringify({ ok: head.startsWith('HTTP/1.1 200 '), bytes, seconds }));
    process.exit(0);
  });
});
