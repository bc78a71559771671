import { execFileSync } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createServer, type TlsOptions } from 'node:tls';
import { ProxyAgent, request } from 'undici';
import { createGuard } from '../../../shared/upstream/address-guard.ts';
import { authorityCertificate, leafCertificate } from '../../../shared/x509/certificate.ts';
import {
  type Cleanup,
  listening,
  type TestProxy,
  temporaryFolder,
} from '../../support/sidecar/proxy.ts';

const dayMs = 86_400_000;

export interface Identity {
  readonly ca: string;
  /** The leaf certificate, followed by the certificate of its authority. */
  readonly cert: string;
  readonly key: string;
}

/**
 * Creates a server certificate and its own authority. The certificate is valid from `fromMs` to `toMs`,
 * relative to the present time.
 */
export function certificateFor(host: string, fromMs = -10 * dayMs, toMs = dayMs): Identity {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const leaf = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const issuer = { key: privateKey, commonName: 'Test' };
  const now = Date.now();
  const ca = authorityCertificate(issuer, {
    notBeforeMs: now - 10 * dayMs,
    notAfterMs: now + 9 * dayMs,
  });
  const cert = leafCertificate(issuer, {
    host,
    publicKey: leaf.publicKey,
    validity: { notBeforeMs: now + fromMs, notAfterMs: now + toMs },
  });
  const key = leaf.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  return { ca, cert: cert + ca, key };
}

/**
 * Creates a self-signed certificate with openssl. The certificate has properties that public
 * authorities no longer sign.
 */
export function opensslCertificate(
  cleanup: Cleanup,
  { key, digest = 'sha256', extensions }: OpensslOptions,
): Identity {
  const folder = temporaryFolder(cleanup);
  const files = { key: join(folder, 'key.pem'), cert: join(folder, 'cert.pem') };
  const request = ['req', '-x509', '-nodes', '-days', '2', '-subj', '/CN=127.0.0.1', `-${digest}`];
  const where = ['-keyout', files.key, '-out', files.cert];
  const added = extensions.flatMap((extension) => ['-addext', extension]);
  execFileSync('openssl', [...request, ...key, ...added, ...where], { stdio: 'pipe' });
  const cert = readFileSync(files.cert, 'utf8');
  return { ca: cert, cert, key: readFileSync(files.key, 'utf8') };
}

interface OpensslOptions {
  readonly key: readonly string[];
  readonly digest?: string;
  readonly extensions: readonly string[];
}

/** Returns a leaf certificate from a valid authority, signed with SHA-1. */
export function sha1Signed(cleanup: Cleanup): Identity {
  const folder = temporaryFolder(cleanup);
  const file = (name: string) => join(folder, name);
  const openssl = (...args: string[]) => execFileSync('openssl', args, { stdio: 'pipe' });
  const ca = ['-keyout', file('ca.key'), '-out', file('ca.pem')];
  openssl('req', '-x509', '-nodes', '-newkey', 'rsa:2048', '-days', '2', '-subj', '/CN=Old', ...ca);
  const leaf = ['-keyout', file('key'), '-out', file('csr')];
  openssl('req', '-nodes', '-newkey', 'rsa:2048', '-subj', '/CN=leaf', ...leaf);
  writeFileSync(file('san'), 'subjectAltName=IP:127.0.0.1');
  const by = ['-CA', file('ca.pem'), '-CAkey', file('ca.key'), '-CAcreateserial', '-sha1'];
  openssl('x509', '-req', '-in', file('csr'), ...by, '-extfile', file('san'), '-out', file('pem'));
  const read = (name: string) => readFileSync(file(name), 'utf8');
  return { ca: read('ca.pem'), cert: read('pem') + read('ca.pem'), key: read('key') };
}

/** Starts a TLS server that counts the bytes that it could decrypt. */
export async function countingServer(cleanup: Cleanup, options: TlsOptions) {
  const received = { bytes: 0, connections: 0 };
  const server = createServer(options, (socket) => {
    received.connections++;
    socket.on('data', (chunk) => {
      received.bytes += chunk.length;
    });
    socket.on('error', () => {});
  });
  server.on('tlsClientError', () => {});
  return { port: await listening(server, cleanup), received };
}

/** Returns a guard whose resolver maps every name to this machine. */
export function everythingIsHere() {
  return createGuard({
    allowPrivate: ['127.0.0.0/8'],
    resolve: (_name, _options, callback) => callback(null, [{ address: '127.0.0.1', family: 4 }]),
  });
}

/** Sends a request as an agent that trusts the proxy. */
export async function through(
  cleanup: Cleanup,
  proxy: TestProxy,
  { host = '127.0.0.1', port }: { readonly host?: string; readonly port: number },
) {
  const agent = new ProxyAgent({ uri: proxy.url, requestTls: { ca: proxy.authority.certPem } });
  cleanup.add(() => agent.destroy());
  const answer = await request(`https://${host}:${port}/`, { dispatcher: agent });
  return { status: answer.statusCode, text: await answer.body.text() };
}
