import { createPublicKey, generateKeyPairSync, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ProxyAgent, request } from 'undici';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readConfig } from '../../../proxy/settings/config.ts';
import { loadAuthority } from '../../../proxy/tls/authority.ts';
import { systemClock } from '../../../shared/base/clock.ts';
import { leafCertificate, readPrivateKey } from '../../../shared/x509/certificate.ts';
import {
  Cleanup,
  httpUpstream,
  raw,
  startProxy,
  temporaryFolder,
} from '../../support/sidecar/proxy.ts';
import { strictOpenssl, strictPython } from './strict-clients.ts';

const permitted = ['example.test', 'api.other.test', '127.0.0.0/8', '2001:db8::/32'];
const inside = [
  'example.test',
  'deep.api.example.test',
  'api.other.test',
  'sallyport.internal',
  '127.0.0.1',
  '2001:db8::7',
];
const outside = [
  'evil.test',
  'notexample.test',
  'other.test',
  'example.test.evil.test',
  '192.0.2.1',
  '2001:db9::7',
  '::1',
];

let cleanup: Cleanup;
let dataDir: string;
beforeEach(() => {
  cleanup = new Cleanup();
  dataDir = temporaryFolder(cleanup);
});
afterEach(() => cleanup.run());

const constraintsOf = (text: string) =>
  readConfig({ env: { SALLYPORT_CA_NAME_CONSTRAINTS: text }, readFile: () => '' }).permittedHosts;

function constrained(text = permitted.join(', ')) {
  return loadAuthority({ dataDir, clock: systemClock, permitted: constraintsOf(text) });
}

/** Returns a leaf that an attacker signs with the stolen key of the authority. */
function forged(host: string) {
  const stolen = readFileSync(join(dataDir, 'ca', 'authority.pem'), 'utf8');
  const key = readPrivateKey(stolen);
  const commonName = /^CN=(.+)$/m.exec(new X509Certificate(stolen).subject)?.[1];
  if (key === undefined || commonName === undefined) throw new Error('no authority');
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const validity = { notBeforeMs: Date.now() - 60_000, notAfterMs: Date.now() + 3_600_000 };
  return {
    cert: leafCertificate(
      { key, commonName },
      { host, publicKey: createPublicKey(privateKey), validity },
    ),
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  };
}

describe('an authority with name constraints', () => {
  it.each(inside)('signs a leaf for %s that strict clients accept', async (host) => {
    const authority = constrained();
    const { cert, key } = authority.leafFor(host);
    const leaf = new X509Certificate(cert).toString();
    expect(strictOpenssl(cleanup, { ca: authority.certPem, leaf, host })).toContain('OK');
    expect(await strictPython(cleanup, { ca: authority.certPem, host, cert, key })).toBe('TLSv1.3');
  });

  it.each(outside)(
    'mints no leaf for %s, and strict clients refuse a leaf that was signed with a stolen key',
    async (host) => {
      const authority = constrained();
      expect(authority.refusal(host)?.code).toBe('proxy.host_not_permitted');
      expect(() => authority.leafFor(host)).toThrow(/SALLYPORT_CA_NAME_CONSTRAINTS/);
      const { cert, key } = forged(host);
      const ca = authority.certPem;
      expect(strictOpenssl(cleanup, { ca, leaf: cert, host })).toMatch(/subtree violation/);
      expect(await strictPython(cleanup, { ca, host, cert, key })).toMatch(/refused: .*subtree/);
    },
  );

  it('excludes all IP addresses if none is permitted', () => {
    const ca = constrained('example.test').certPem;
    for (const host of ['127.0.0.1', '::1']) {
      const leaf = forged(host).cert;
      expect(strictOpenssl(cleanup, { ca, leaf, host })).toMatch(/excluded subtree violation/);
    }
  });

  it('is created again if the permitted hosts change, and kept otherwise', () => {
    const first = constrained();
    expect(constrained().certPem).toBe(first.certPem);
    const other = constrained('example.test');
    expect(other.certPem).not.toBe(first.certPem);
    const free = loadAuthority({ dataDir, clock: systemClock });
    expect(free.certPem).not.toBe(other.certPem);
    expect(free.refusal('evil.test')).toBeUndefined();
    expect(constrained().refusal('evil.test')).toBeDefined();
  });

  it('causes the refusal of a CONNECT to a host that is not permitted, but not of a plain HTTP request', async () => {
    const port = await httpUpstream(cleanup, (_req, res) => res.end('plain'));
    const proxy = await startProxy(cleanup, { authority: constrained('example.test') });
    const target = `127.0.0.1:${port}`;
    expect(await raw(proxy.port, `CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`)).toMatch(
      /^HTTP\/1\.1 403 [\s\S]*proxy\.host_not_permitted/,
    );
    expect(proxy.refusals).toEqual(['proxy.host_not_permitted']);
    const dispatcher = new ProxyAgent({ uri: proxy.url, proxyTunnel: false });
    cleanup.add(() => dispatcher.destroy());
    expect((await request(`http://${target}/`, { dispatcher })).statusCode).toBe(200);
    const connect = 'CONNECT sallyport.internal:80 HTTP/1.1\r\nHost: sallyport.internal:80\r\n\r\n';
    expect(await raw(proxy.port, connect, 200)).toContain('200 Connection Established');
  });

  it.each(['*.example.test', 'example.test:443', 'https://example.test', '10.0.0.1/8', 'a b'])(
    'is refused with an invalid constraint: %s',
    (text) => expect(() => constraintsOf(text)).toThrow(/SALLYPORT_CA_NAME_CONSTRAINTS/),
  );
});
