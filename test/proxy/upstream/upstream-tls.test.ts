import { generateKeyPairSync } from 'node:crypto';
import { createServer as createTls } from 'node:tls';
import { ProxyAgent, request } from 'undici';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { authorityCertificate, leafCertificate } from '../../../proxy/tls/certificate.ts';
import {
  Cleanup,
  httpsUpstream,
  httpUpstream,
  listening,
  startProxy,
  type TestProxy,
  testAuthority,
} from '../../support/proxy.ts';

let cleanup: Cleanup;
beforeEach(() => {
  cleanup = new Cleanup();
});
afterEach(() => cleanup.run());

describe('TLS of an upstream', () => {
  const dayMs = 86_400_000;

  function certificateFor(host: string, notAfterMs: number) {
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const leaf = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const issuer = { key: privateKey, commonName: 'Test' };
    const validity = { notBeforeMs: Date.now() - 10 * dayMs, notAfterMs: Date.now() + dayMs };
    const ca = authorityCertificate(issuer, validity);
    const cert = leafCertificate(issuer, {
      host,
      publicKey: leaf.publicKey,
      validity: { ...validity, notAfterMs },
    });
    return { ca, cert, key: leaf.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString() };
  }

  async function through(proxy: TestProxy, port: number) {
    const agent = new ProxyAgent({ uri: proxy.url, requestTls: { ca: proxy.authority.certPem } });
    cleanup.add(() => agent.destroy());
    const answer = await request(`https://127.0.0.1:${port}/`, { dispatcher: agent });
    return { status: answer.statusCode, text: await answer.body.text() };
  }

  it.each([
    ['of an unknown authority', '127.0.0.1', dayMs, false],
    ['that has expired', '127.0.0.1', -dayMs, true],
    ['of another host', 'other.example', dayMs, true],
  ])(
    'a certificate %s: 502, and not a byte of the request is sent',
    async (_what, host, endsInMs, trusted) => {
      const { ca, cert, key } = certificateFor(host, Date.now() + endsInMs);
      let received = 0;
      const server = createTls({ cert: cert + ca, key }, (socket) => {
        socket.on('data', (chunk) => {
          received += chunk.length;
        });
        socket.on('error', () => {});
      });
      server.on('tlsClientError', () => {});
      const port = await listening(server, cleanup);
      const proxy = await startProxy(cleanup, { ca: trusted ? [ca] : [] });
      // Twice: a TLS session of the first attempt must not open the second.
      for (let attempt = 0; attempt < 2; attempt++) {
        expect(await through(proxy, port)).toMatchObject({
          status: 502,
          text: expect.stringContaining('upstream.tls_invalid'),
        });
      }
      expect(received).toBe(0);
    },
  );

  it('cannot be switched off by the environment', async () => {
    process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
    cleanup.add(() => {
      delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
    });
    const port = await httpsUpstream(cleanup, testAuthority(cleanup), (_req, res) =>
      res.end('secret'),
    );
    const proxy = await startProxy(cleanup);
    expect((await through(proxy, port)).status).toBe(502);
  });

  it('a plain HTTP server behind https://: 502', async () => {
    const proxy = await startProxy(cleanup);
    const port = await httpUpstream(cleanup, (_req, res) => res.end('plain'));
    expect((await through(proxy, port)).text).toContain('upstream.tls_invalid');
  });
});
