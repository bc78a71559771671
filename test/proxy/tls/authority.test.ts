import { X509Certificate } from 'node:crypto';
import {
  chmodSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { checkServerIdentity } from 'node:tls';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { loadAuthority } from '../../../proxy/tls/authority.ts';
import { systemClock } from '../../../shared/base/clock.ts';
import { Cleanup, temporaryFolder } from '../../support/sidecar/proxy.ts';
import { hosts, longHost } from './strict-clients.ts';

const dayMs = 86_400_000;

let cleanup: Cleanup;
let dataDir: string;
beforeEach(() => {
  cleanup = new Cleanup();
  dataDir = temporaryFolder(cleanup);
});
afterEach(() => cleanup.run());

function clockAt(offsetMs: { value: number }) {
  return { now: () => Date.now() + offsetMs.value, monotonic: () => performance.now() };
}

/** Flips one bit near the end of the certificate, which is within the signature. */
function changeSignature(pem: string): string {
  const cert = new X509Certificate(pem);
  const bytes = Buffer.from(cert.raw);
  bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1;
  const body = bytes.toString('base64').replace(/.{64}/g, '$&\n');
  const key = pem.slice(0, pem.indexOf('-----BEGIN CERTIFICATE'));
  return `${key}-----BEGIN CERTIFICATE-----\n${body}\n-----END CERTIFICATE-----\n`;
}

const leafOf = (cert: string) => new X509Certificate(cert);

describe('the authority on disk', () => {
  it('survives a restart', () => {
    const first = loadAuthority({ dataDir, clock: systemClock });
    expect(loadAuthority({ dataDir, clock: systemClock }).certPem).toBe(first.certPem);
  });

  it('is readable by its owner only, and leaves no temporary file', () => {
    loadAuthority({ dataDir, clock: systemClock });
    expect(statSync(join(dataDir, 'ca', 'authority.pem')).mode & 0o777).toBe(0o600);
    expect(statSync(join(dataDir, 'ca')).mode & 0o777).toBe(0o700);
    expect(readdirSync(join(dataDir, 'ca')).sort()).toEqual(['authority.pem', 'ca.crt']);
    expect(readFileSync(join(dataDir, 'ca', 'ca.crt'), 'utf8')).not.toContain('PRIVATE');
  });

  it('is refused if every user can read its key; group access is removed', () => {
    const { certPem } = loadAuthority({ dataDir, clock: systemClock });
    const file = join(dataDir, 'ca', 'authority.pem');
    chmodSync(file, 0o660);
    expect(loadAuthority({ dataDir, clock: systemClock }).certPem).toBe(certPem);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    chmodSync(file, 0o644);
    expect(() => loadAuthority({ dataDir, clock: systemClock })).toThrow(/open to every user/);
  });

  it.each(['', 'nonsense', '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n'])(
    'is refused if its file contains something else: %j',
    (text) => {
      loadAuthority({ dataDir, clock: systemClock });
      writeFileSync(join(dataDir, 'ca', 'authority.pem'), text);
      expect(() => loadAuthority({ dataDir, clock: systemClock })).toThrow(/holds no authority/);
    },
  );

  it.each<[string, (pem: string) => string]>([
    ['a certificate in which one byte was changed', changeSignature],
    ['no certificate', (pem) => pem.slice(0, pem.indexOf('-----BEGIN CERTIFICATE'))],
    ['no key', (pem) => pem.slice(pem.indexOf('-----BEGIN CERTIFICATE'))],
    ['a malformed certificate', (pem) => pem.replace(/(BEGIN CERTIFICATE-----\n)M/, '$1A')],
  ])('is refused if its file contains %s', (_what, tamper) => {
    loadAuthority({ dataDir, clock: systemClock });
    const file = join(dataDir, 'ca', 'authority.pem');
    writeFileSync(file, tamper(readFileSync(file, 'utf8')));
    expect(() => loadAuthority({ dataDir, clock: systemClock })).toThrow(/holds no authority/);
  });

  it('is refused if its file contains a leaf certificate', () => {
    const authority = loadAuthority({ dataDir, clock: systemClock });
    const { key, cert } = authority.leafFor('a.example');
    writeFileSync(join(dataDir, 'ca', 'authority.pem'), key + leafOf(cert).toString());
    expect(() => loadAuthority({ dataDir, clock: systemClock })).toThrow(/holds no authority/);
  });

  it('is created again if the clock was far ahead when the authority was created', () => {
    const offset = { value: 30 * dayMs };
    const { certPem } = loadAuthority({ dataDir, clock: clockAt(offset) });
    offset.value = 29 * dayMs;
    expect(loadAuthority({ dataDir, clock: clockAt(offset) }).certPem).toBe(certPem);
    offset.value = 0;
    expect(loadAuthority({ dataDir, clock: clockAt(offset) }).certPem).not.toBe(certPem);
  });

  it('restores ca.crt, which agents trust, if that file was changed', () => {
    const { certPem } = loadAuthority({ dataDir, clock: systemClock });
    writeFileSync(join(dataDir, 'ca', 'ca.crt'), 'something else');
    loadAuthority({ dataDir, clock: systemClock });
    expect(readFileSync(join(dataDir, 'ca', 'ca.crt'), 'utf8')).toBe(certPem);
  });

  it('is refused if its certificate does not belong to its key', () => {
    const other = mkdtempSync(join(tmpdir(), 'sallyport-ca-'));
    const { certPem } = loadAuthority({ dataDir: other, clock: systemClock });
    rmSync(other, { recursive: true });
    loadAuthority({ dataDir, clock: systemClock });
    const file = join(dataDir, 'ca', 'authority.pem');
    const key = readFileSync(file, 'utf8').split('-----BEGIN CERTIFICATE-----')[0];
    writeFileSync(file, `${key}${certPem}`);
    expect(() => loadAuthority({ dataDir, clock: systemClock })).toThrow(/holds no authority/);
  });

  it('is replaced before it expires', () => {
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

  it('is the same for processes that start at the same time', async () => {
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

describe('leaf certificates', () => {
  it.each(hosts)('are valid for their host only, and signed by the authority: %s', (host) => {
    const authority = loadAuthority({ dataDir, clock: systemClock });
    const leaf = leafOf(authority.leafFor(host).cert);
    const ca = new X509Certificate(authority.certPem);
    expect(leaf.verify(ca.publicKey)).toBe(true);
    expect(leaf.checkIssued(ca)).toBe(true);
    expect(leaf.ca).toBe(false);
    expect(leaf.keyUsage).toEqual(['1.3.6.1.5.5.7.3.1']);
    expect(checkServerIdentity(host, leaf.toLegacyObject())).toBeUndefined();
    expect(checkServerIdentity('other.example', leaf.toLegacyObject())).toBeInstanceOf(Error);
  });

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

  it('are reused while fresh, and renewed before they expire', () => {
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

  it('are evicted least recently used first, so that many host names do not fill memory', () => {
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

  it('have a common name only for host names that fit', () => {
    const { leafFor } = loadAuthority({ dataDir, clock: systemClock });
    const subjectOf = (host: string) => leafOf(leafFor(host).cert).subject;
    expect(subjectOf('api.example.com')).toBe('O=Sallyport\nCN=api.example.com');
    for (const host of [longHost, '127.0.0.1', '::1']) expect(subjectOf(host)).toBe('O=Sallyport');
  });

  it('expire with their authority at the latest, and are still reused in the last hours of the authority', () => {
    const offset = { value: 0 };
    const clock = clockAt(offset);
    const authority = loadAuthority({ dataDir, clock });
    offset.value = authority.notAfterMs - Date.now() - 3_600_000;
    const leaf = authority.leafFor('a.example');
    expect(leaf.notAfterMs).toBe(authority.notAfterMs);
    expect(authority.leafFor('a.example')).toBe(leaf);
  });

  it('are rate-limited for new hosts, but always available for known hosts', () => {
    let nowMs = 0;
    const clock = { now: () => Date.now(), monotonic: () => nowMs };
    const authority = loadAuthority({ dataDir, clock });
    authority.leafFor('known.example');
    const flood = () =>
      Array.from({ length: 2000 }, (_, index) => authority.refusal(`h${index}.example`));
    const admitted = (results: ReturnType<typeof flood>) =>
      results.filter((result) => result === undefined).length;
    const first = flood();
    expect(admitted(first)).toBe(256);
    expect(first.at(-1)).toMatchObject({ code: 'proxy.hosts_too_many', kind: { status: 429 } });
    expect(authority.refusal('known.example')).toBeUndefined();
    nowMs += 1000;
    expect(admitted(flood())).toBe(64);
    nowMs += 3_600_000;
    expect(admitted(flood())).toBe(256);
  });
});
