import { createServer as createHttpsServer } from 'node:https';
import type { TLSSocket } from 'node:tls';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  Cleanup,
  httpsUpstream,
  httpUpstream,
  listening,
  startProxy,
  testAuthority,
} from '../../support/sidecar/proxy.ts';
import {
  certificateFor,
  countingServer,
  everythingIsHere,
  type Identity,
  opensslCertificate,
  sha1Signed,
  through,
} from './upstream-tls-stage.ts';

let cleanup: Cleanup;
beforeEach(() => {
  cleanup = new Cleanup();
});
afterEach(() => cleanup.run());

const dayMs = 86_400_000;
const forUs = 'subjectAltName=IP:127.0.0.1';
const p256 = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256'];
// The server may present any certificate; the sidecar keeps its own security level.
const anything = 'DEFAULT:@SECLEVEL=0';

interface Case {
  readonly identity: (cleanup: Cleanup) => Identity;
  readonly isTrusted?: boolean;
  readonly code: string;
}

const cases: Record<string, Case> = {
  'of an unknown authority': {
    identity: () => certificateFor('127.0.0.1'),
    isTrusted: false,
    code: 'upstream.certificate_untrusted',
  },
  'of an unknown authority that it does not send along': {
    identity: () => {
      const { cert, ...rest } = certificateFor('127.0.0.1');
      return { ...rest, cert: `${cert.split('-----END')[0]}-----END CERTIFICATE-----\n` };
    },
    isTrusted: false,
    code: 'upstream.certificate_untrusted',
  },
  'signed by itself': {
    identity: (at) => opensslCertificate(at, { key: p256, extensions: [forUs] }),
    isTrusted: false,
    code: 'upstream.certificate_self_signed',
  },
  'that has expired': {
    identity: () => certificateFor('127.0.0.1', -2 * dayMs, -dayMs),
    code: 'upstream.certificate_expired',
  },
  'that is not valid yet': {
    identity: () => certificateFor('127.0.0.1', dayMs, 2 * dayMs),
    code: 'upstream.certificate_not_yet_valid',
  },
  'of another host': {
    identity: () => certificateFor('other.example'),
    code: 'upstream.certificate_wrong_host',
  },
  'that names its host as common name only': {
    identity: (at) => opensslCertificate(at, { key: p256, extensions: [] }),
    code: 'upstream.certificate_wrong_host',
  },
  'with an RSA key of 1024 bits': {
    identity: (at) => opensslCertificate(at, { key: ['-newkey', 'rsa:1024'], extensions: [forUs] }),
    code: 'upstream.certificate_weak',
  },
  'signed over SHA-1': {
    identity: sha1Signed,
    code: 'upstream.certificate_weak',
  },
  'for clients, not servers': {
    identity: (at) =>
      opensslCertificate(at, { key: p256, extensions: [forUs, 'extendedKeyUsage=clientAuth'] }),
    code: 'upstream.tls_invalid',
  },
};

describe('an upstream is refused with 502 and a specific reason, and receives no request byte, if it', () => {
  it.each(Object.entries(cases))('has a certificate %s', async (_what, refused) => {
    const { ca, cert, key } = refused.identity(cleanup);
    const { port, received } = await countingServer(cleanup, { cert, key, ciphers: anything });
    const proxy = await startProxy(cleanup, { ca: refused.isTrusted === false ? [] : [ca] });
    // There are two attempts, because a TLS session of the first one must not let the second one succeed.
    for (let attempt = 0; attempt < 2; attempt++) {
      expect(await through(cleanup, proxy, { port })).toEqual({
        status: 502,
        text: JSON.stringify({ reason_code: refused.code }),
      });
    }
    expect(received.bytes).toBe(0);
  });

  it.each(['TLSv1', 'TLSv1.1'] as const)('supports %s at most', async (version) => {
    const { ca, cert, key } = certificateFor('127.0.0.1');
    const { port, received } = await countingServer(cleanup, {
      cert,
      key,
      ciphers: anything,
      minVersion: version,
      maxVersion: version,
    });
    const proxy = await startProxy(cleanup, { ca: [ca] });
    const answer = await through(cleanup, proxy, { port });
    expect(answer).toMatchObject({
      status: 502,
      text: expect.stringContaining('upstream.tls_version'),
    });
    expect(received.connections).toBe(0);
  });

  it('has an untrusted certificate, even with NODE_TLS_REJECT_UNAUTHORIZED=0', async () => {
    process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
    cleanup.add(() => {
      delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
    });
    const port = await httpsUpstream(cleanup, testAuthority(cleanup), (_req, res) =>
      res.end('secret'),
    );
    const proxy = await startProxy(cleanup);
    expect((await through(cleanup, proxy, { port })).status).toBe(502);
  });

  it('is a plain HTTP server although its URL begins with https://', async () => {
    const proxy = await startProxy(cleanup);
    const port = await httpUpstream(cleanup, (_req, res) => res.end('plain'));
    expect((await through(cleanup, proxy, { port })).text).toContain('upstream.tls_invalid');
  });
});

describe('a wildcard certificate', () => {
  it.each([
    ['api.example.test', 200],
    ['a.b.example.test', 502],
    ['example.test', 502],
    ['api.example.test.evil.test', 502],
  ])('of *.example.test on the host %s results in %d', async (host, status) => {
    const { ca, cert, key } = certificateFor('*.example.test');
    const server = createHttpsServer({ cert, key }, (_req, res) => res.end('ok'));
    const port = await listening(server, cleanup);
    const proxy = await startProxy(cleanup, { ca: [ca], guard: everythingIsHere() });
    // The agent verifies the leaf that the sidecar minted for this host.
    expect((await through(cleanup, proxy, { host, port })).status).toBe(status);
    expect(proxy.authority.minted()).toBe(1);
  });
});

describe('a TLS session with an upstream', () => {
  it.each(['TLSv1.2', 'TLSv1.3'] as const)(
    'is resumed on the next connection: %s',
    async (version) => {
      const { ca, cert, key } = certificateFor('127.0.0.1');
      const resumed: boolean[] = [];
      const server = createHttpsServer({ cert, key, maxVersion: version }, (req, res) => {
        resumed.push((req.socket as TLSSocket).isSessionReused());
        res.setHeader('connection', 'close').end('ok');
      });
      const port = await listening(server, cleanup);
      const proxy = await startProxy(cleanup, { ca: [ca] });
      for (let call = 0; call < 4; call++) {
        expect((await through(cleanup, proxy, { port })).status).toBe(200);
        globalThis.gc?.();
      }
      expect(resumed).toEqual([false, true, true, true]);
    },
  );
});
