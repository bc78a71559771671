import { execFile, spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createServer, type SecureContextOptions } from 'node:tls';
import { promisify } from 'node:util';
import { type Cleanup, listening, temporaryFolder } from '../../support/sidecar/proxy.ts';

export const longHost = `${'a'.repeat(60)}.${'b'.repeat(60)}.example`;
export const hosts = [
  'api.example.com',
  'xn--bcher-kva.example',
  'my_service',
  longHost,
  '127.0.0.1',
  '::1',
  '2001:db8::7',
];

const run = promisify(execFile);

// Sets the default verification flags of Python 3.13, so that the test does not depend on the version of
// Python.
const handshake = `
import socket, ssl, sys
context = ssl.create_default_context(cafile=sys.argv[1])
context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
try:
    with socket.create_connection(("127.0.0.1", int(sys.argv[2]))) as raw:
        with context.wrap_socket(raw, server_hostname=sys.argv[3]) as tls:
            print(tls.version())
except ssl.SSLCertVerificationError as error:
    print("refused:", error.verify_message)
`;

/**
 * Connects to a server with a strict Python client; resolves with the TLS version, or with the
 * reason why the client rejected the certificate.
 */
export async function strictPython(
  cleanup: Cleanup,
  { ca, host, ...shown }: { readonly ca: string; readonly host: string } & SecureContextOptions,
): Promise<string> {
  const server = createServer(shown, (socket) => socket.end());
  server.on('tlsClientError', () => {});
  const port = await listening(server, cleanup);
  const file = join(temporaryFolder(cleanup), 'ca.pem');
  writeFileSync(file, ca);
  const { stdout } = await run('python3', ['-c', handshake, file, String(port), host]);
  return stdout.trim();
}

/**
 * Returns the output of `openssl verify -x509_strict` for a host's leaf: `leaf.pem: OK`, or the reason for
 * the rejection.
 */
export function strictOpenssl(
  cleanup: Cleanup,
  { ca, leaf, host }: { readonly ca: string; readonly leaf: string; readonly host: string },
): string {
  const folder = temporaryFolder(cleanup);
  const files = { ca: join(folder, 'ca.pem'), leaf: join(folder, 'leaf.pem') };
  writeFileSync(files.ca, ca);
  writeFileSync(files.leaf, leaf);
  const isAddress = host.includes(':') || /^[\d.]+$/.test(host);
  const strict = ['-x509_strict', '-check_ss_sig', '-purpose', 'sslserver', '-CAfile', files.ca];
  const name = [isAddress ? '-verify_ip' : '-verify_hostname', host];
  const result = spawnSync('openssl', ['verify', ...strict, ...name, files.leaf], {
    encoding: 'utf8',
  });
  return result.stdout + result.stderr;
}
