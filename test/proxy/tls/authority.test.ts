import { execFileSync, spawnSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { checkServerIdentity, connect, createServer, type TLSSocket } from 'node:tls';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { loadAuthority } from '../../../proxy/tls/authority.ts';
import { trustBundle } from '../../../proxy/tls/trust-bundle.ts';
import { systemClock } from '../../../shared/clock.ts';

const dayMs = 86_400_000;
const longHost = `${'a'.repeat(60)}.${'b'.repeat(60)}.example`;
const hosts = [
  'api.example.com',
  'xn--bcher-kva.example',
  'my_service',
  longHost,
  '127.0.0.1',
  '::1',
];

let dataDir: string;
beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'sallyport-ca-'));
});
afterEach(() => rmSync(dataDir, { recursive: true, force: true }));

function clockAt(offsetMs: { value: number }) {
  return { now: () => Date.now() + offsetMs.value, monotonic: () => performance.now() };
}

const leafOf = (cert: string) => new X509Certificate(cert);

describe('the authority on disk', () => {
  it('survives a restart', () => {
    const first = loadAuthority({ dataDir, clock: systemClock });
    expect(loadAuthority({ dataDir, clock: systemClock }).certPem).toBe(first.certPem);
  });

  it('is readable by its owner alone, and leaves no draft behind', () => {
    loadAuthority({ dataDir, clock: systemClock });
    expect(statSync(join(dataDir, 'ca', 'authority.pem')).mode & 0o777).toBe(0o600);
    expect(statSync(join(dataDir, 'ca')).mode & 0o777).toBe(0o700);
    expect(readdirSync(join(dataDir, 'ca')).sort()).toEqual(['authority.pem', 'ca.crt']);
    expect(readFileSync(join(dataDir, 'ca', 'ca.crt'), 'utf8')).not.toContain('PRIVATE');
  });

  it('refuses a key that every user could read, and takes back what a mount gave the group', () => {
    const { certPem } = loadAuthority({ dataDir, clock: systemClock });
    const file = join(dataDir, 'ca', 'authority.pem');
    chmodSync(file, 0o660);
    expect(loadAuthority({ dataDir, clock: systemClock }).certPem).toBe(certPem);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    chmodSync(file, 0o644);
    expect(() => loadAuthority({ dataDir, clock: systemClock })).toThrow(/open to every user/);
  });

  it.each(['', 'nonsense', '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n'])(
    'refuses a file that holds something else: %j',
    (text) => {
      loadAuthority({ dataDir, clock: systemClock });
      writeFileSync(join(dataDir, 'ca', 'authority.pem'), text);
      expect(() => loadAuthority({ dataDir, clock: systemClock })).toThrow(/holds no authority/);
    },
  );

  it('refuses a certificate that is not of the key beside it', () => {
    const other = mkdtempSync(join(tmpdir(), 'sallyport-ca-'));
    const { certPem } = loadAuthority({ dataDir: other, clock: systemClock });
    rmSync(other, { recursive: true });
    loadAuthority({ dataDir, clock: systemClock });
    const file = join(dataDir, 'ca', 'authority.pem');
    const key = readFileSync(file, 'utf8').split('-----BEGIN CERTIFICATE-----')[0];
    writeFileSync(file, `${key}${certPem}`);
    expect(() => loadAuthority({ dataDir, clock: systemClock })).toThrow(/holds no authority/);
  });

  it('is replaced before it ends', () => {
    const offset = { value: 0 };
    const clock = clockAt(offset);
    const { certPem } = loadAuthority({ dataDir, clock });
    offset.value = 600 * dayMs;
    expect(loadAuthority({ dataDir, clock }).certPem).toBe(certPem);
    offset.value = 700 * dayMs;
    const renewed = loadAuthority({ dataDir, clock }).certPem;
    expect(renewed).not.toBe(certPem);
    expect(new X509Certificate(renewed).subject).not.toBe(new X509Certificate(certPem).subject);
  });

  it('is one and the same for processes that start at once', async () => {
    const program = `import { loadAuthority } from ${JSON.stringify(join(import.meta.dirname, '../../../proxy/tls/authority.ts'))};
      process.stdout.write(loadAuthority({ dataDir: ${JSON.stringify(dataDir)}, clock: { now: Date.now, monotonic: () => 0 } }).certPem);`;
    const { spawn } = await import('node:child_process');
    const outputs = await Promise.all(
      [1, 2, 3].map(
        () =>
          new Promise<string>((resolve) => {
            const child = spawn(process.execPath, ['--input-type=module', '-e', program]);
            let text = '';
            child.stdout.on('data', (chunk) => {
              text += chunk;
            });
            child.on('close', () => resolve(text));
          }),
      ),
    );
    expect(outputs[0]).toContain('BEGIN CERTIFICATE');
    expect(new Set(outputs).size).toBe(1);
  });
});

describe('leaves', () => {
  it.each(hosts)(
    'a leaf for %s is for that host and no other, and is signed by the authority',
    (host) => {
      const authority = loadAuthority({ dataDir, clock: systemClock });
      const leaf = leafOf(authority.leafFor(host).cert);
      const ca = new X509Certificate(authority.certPem);
      expect(leaf.verify(ca.publicKey)).toBe(true);
      expect(leaf.checkIssued(ca)).toBe(true);
      expect(leaf.ca).toBe(false);
      expect(leaf.keyUsage).toEqual(['1.3.6.1.5.5.7.3.1']);
      expect(checkServerIdentity(host, leaf.toLegacyObject())).toBeUndefined();
      expect(checkServerIdentity('other.example', leaf.toLegacyObject())).toBeInstanceOf(Error);
    },
  );

  it('are short-lived and back-dated', () => {
    const leaf = leafOf(loadAuthority({ dataDir, clock: systemClock }).leafFor('a.example').cert);
    const start = leaf.validFromDate.getTime();
    const end = leaf.validToDate.getTime();
    expect(start).toBeLessThan(Date.now() - 20 * 3_600_000);
    expect(end - Date.now()).toBeGreaterThan(20 * 3_600_000);
    expect(end - Date.now()).toBeLessThan(2 * dayMs);
  });

  it('never share a serial number', () => {
    const authority = loadAuthority({ dataDir, clock: systemClock });
    const serials = Array.from(
      { length: 50 },
      (_, index) => leafOf(authority.leafFor(`h${index}.example`).cert).serialNumber,
    );
    expect(new Set(serials).size).toBe(50);
    for (const serial of serials) expect(serial).toMatch(/^[4-7][0-9A-F]{31}$/);
  });

  it('are kept while fresh and renewed before they end', () => {
    const offset = { value: 0 };
    const authority = loadAuthority({ dataDir, clock: clockAt(offset) });
    const first = authority.leafFor('a.example');
    expect(authority.leafFor('a.example')).toBe(first);
    offset.value = 17 * 3_600_000;
    expect(authority.leafFor('a.example')).toBe(first);
    offset.value = 19 * 3_600_000;
    expect(authority.leafFor('a.example')).not.toBe(first);
    expect(authority.minted()).toBe(2);
  });

  it('are forgotten least recently used first, so that names cannot fill memory', () => {
    const authority = loadAuthority({ dataDir, clock: systemClock });
    const kept = authority.leafFor('kept.example');
    for (let index = 0; index < 999; index++) authority.leafFor(`h${index}.example`);
    expect(authority.leafFor('kept.example')).toBe(kept);
    authority.leafFor('one-more.example');
    expect(authority.leafFor('kept.example')).toBe(kept);
    const minted = authority.minted();
    authority.leafFor('h0.example');
    expect(authority.minted()).toBe(minted + 1);
  });

  it('cost less than a millisecond', () => {
    const authority = loadAuthority({ dataDir, clock: systemClock });
    for (let index = 0; index < 50; index++) authority.leafFor(`warm${index}.example`);
    const times = Array.from({ length: 101 }, (_, index) => {
      const start = performance.now();
      authority.leafFor(`h${index}.example`);
      return performance.now() - start;
    }).sort((a, b) => a - b);
    expect(times[50]).toBeLessThan(1);
  });
});

describe('other implementations accept the chain', () => {
  it.each(hosts)('openssl verify -x509_strict: %s', (host) => {
    const authority = loadAuthority({ dataDir, clock: systemClock });
    const leafFile = join(dataDir, 'leaf.pem');
    const caFile = join(dataDir, 'ca', 'ca.crt');
    writeFileSync(leafFile, leafOf(authority.leafFor(host).cert).toString());
    const name =
      host.includes(':') || /^[\d.]+$/.test(host)
        ? ['-verify_ip', host]
        : ['-verify_hostname', host];
    const strict = [
      'verify',
      '-x509_strict',
      '-check_ss_sig',
      '-purpose',
      'sslserver',
      '-CAfile',
      caFile,
    ];
    const result = spawnSync('openssl', [...strict, ...name, leafFile], { encoding: 'utf8' });
    expect(result.stderr + result.stdout).toContain('leaf.pem: OK');
    const wrong = spawnSync('openssl', [...strict, '-verify_hostname', 'evil.test', leafFile]);
    expect(wrong.status).not.toBe(0);
  });

  async function serve<T>(work: (port: number) => Promise<T> | T): Promise<T> {
    const authority = loadAuthority({ dataDir, clock: systemClock });
    const { key, cert } = authority.leafFor('127.0.0.1');
    const server = createServer({ key, cert }, (socket: TLSSocket) => socket.end());
    server.on('tlsClientError', () => {});
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error('no port');
    try {
      return await work(address.port);
    } finally {
      server.close();
    }
  }

  it('python with VERIFY_X509_STRICT', async () => {
    const program = `
import socket, ssl, sys
context = ssl.create_default_context(cafile=sys.argv[1])
context.verify_flags |= ssl.VERIFY_X509_STRICT
with socket.create_connection(("127.0.0.1", int(sys.argv[2]))) as raw:
    with context.wrap_socket(raw, server_hostname="127.0.0.1") as tls:
        print(tls.version())
`;
    const { spawn } = await import('node:child_process');
    const output = await serve(
      (port) =>
        new Promise<string>((resolve) => {
          const child = spawn('python3', [
            '-c',
            program,
            join(dataDir, 'ca', 'ca.crt'),
            String(port),
          ]);
          let text = '';
          child.stdout.on('data', (chunk) => {
            text += chunk;
          });
          child.stderr.on('data', (chunk) => {
            text += chunk;
          });
          child.on('close', () => resolve(text));
        }),
    );
    expect(output.trim()).toBe('TLSv1.3');
  });

  it('node, by the bundle that holds the public authorities too', async () => {
    const ca = trustBundle(loadAuthority({ dataDir, clock: systemClock }).certPem);
    expect(ca.match(/BEGIN CERTIFICATE/g)?.length).toBeGreaterThan(100);
    await serve(
      (port) =>
        new Promise<void>((resolve, reject) => {
          const socket = connect({ host: '127.0.0.1', port, ca }, () => {
            socket.end();
            resolve();
          });
          socket.on('error', reject);
        }),
    );
  });

  it('openssl and python are there to be asked', () => {
    expect(execFileSync('openssl', ['version'], { encoding: 'utf8' })).toContain('OpenSSL');
    expect(execFileSync('python3', ['--version'], { encoding: 'utf8' })).toContain('Python');
    expect(existsSync(dataDir)).toBe(true);
  });
});
