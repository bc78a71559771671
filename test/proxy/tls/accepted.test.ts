import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { connect, createServer } from 'node:tls';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { loadAuthority } from '../../../proxy/tls/authority.ts';
import { trustBundle } from '../../../proxy/tls/authority-file.ts';
import { systemClock } from '../../../shared/base/clock.ts';
import { Cleanup, listening, temporaryFolder } from '../../support/sidecar/proxy.ts';
import { hosts, strictOpenssl, strictPython } from './strict-clients.ts';

let cleanup: Cleanup;
let dataDir: string;
beforeEach(() => {
  cleanup = new Cleanup();
  dataDir = temporaryFolder(cleanup);
});
afterEach(() => cleanup.run());

const leafOf = (cert: string) => new X509Certificate(cert);

describe('the certificate chain', () => {
  it.each(hosts)('is accepted by openssl verify -x509_strict for %s', (host) => {
    const { certPem: ca, leafFor } = loadAuthority({ dataDir, clock: systemClock });
    const leaf = leafOf(leafFor(host).cert).toString();
    expect(strictOpenssl(cleanup, { ca, leaf, host })).toContain('leaf.pem: OK');
    expect(strictOpenssl(cleanup, { ca, leaf, host: 'evil.test' })).toContain('mismatch');
  });

  it.each(hosts)('is accepted by Python with VERIFY_X509_STRICT for %s', async (host) => {
    const { certPem: ca, leafFor } = loadAuthority({ dataDir, clock: systemClock });
    const { cert, key } = leafFor(host);
    expect(await strictPython(cleanup, { ca, host, cert, key })).toBe('TLSv1.3');
    const other = leafFor('other.example');
    const shown = { cert: other.cert, key: other.key };
    expect(await strictPython(cleanup, { ca, host, ...shown })).toMatch(/refused: .*mismatch/);
  });

  it('is accepted by Node with the bundle that also contains the public authorities', async () => {
    const authority = loadAuthority({ dataDir, clock: systemClock });
    const ca = trustBundle(authority.certPem);
    expect(ca.match(/BEGIN CERTIFICATE/g)?.length).toBeGreaterThan(100);
    const { key, cert } = authority.leafFor('127.0.0.1');
    const server = createServer({ key, cert }, (socket) => socket.end());
    const port = await listening(server, cleanup);
    const socket = connect({ host: '127.0.0.1', port, ca });
    await once(socket, 'secureConnect');
    expect(socket.authorized).toBe(true);
    socket.destroy();
  });

  it('contains an authority that has the fields required by RFC 5280', () => {
    const { certPem } = loadAuthority({ dataDir, clock: systemClock });
    const text = execFileSync('openssl', ['x509', '-noout', '-text'], {
      input: certPem,
      encoding: 'utf8',
    });
    expect(text).toMatch(/Basic Constraints: critical\s+CA:TRUE, pathlen:0/);
    expect(text).toMatch(/Key Usage: critical\s+Certificate Sign, CRL Sign/);
    const identifier = /Subject Key Identifier:\s*([0-9A-F:]{59})/.exec(text)?.[1];
    expect(identifier).toBeDefined();
    expect(text).toMatch(new RegExp(`Authority Key Identifier:\\s*(?:keyid:)?${identifier}`));
    expect(text).toContain('ASN1 OID: prime256v1');
    expect(text).toContain('Signature Algorithm: ecdsa-with-SHA256');
    expect(text).not.toContain('Name Constraints');
  });
});
