import { createPublicKey, generateKeyPairSync } from 'node:crypto';
import { createSecureContext, type SecureContext } from 'node:tls';
import type { Clock } from '../../shared/clock.ts';
import { openAuthority } from './authority-file.ts';
import { leafCertificate } from './certificate.ts';

/** What a TLS server shows for one host. */
export interface Leaf {
  /** PEM: the leaf, then the authority. */
  readonly cert: string;
  /** PEM of the private key. */
  readonly key: string;
  readonly notAfterMs: number;
  readonly context: SecureContext;
}

/** The local certificate authority by which the sidecar reads its agent's HTTPS requests. */
export interface Authority {
  readonly certPem: string;
  /** `host` is canonical, as `normaliseHost` makes it. */
  leafFor(host: string): Leaf;
  /** Leaves minted since start. */
  minted(): number;
}

const hourMs = 3_600_000;
const leafLifetimeMs = 24 * hourMs;
const renewedBeforeMs = 6 * hourMs;
const backdatedMs = 24 * hourMs;
const leavesMax = 1000;

/** Opens the authority in `dataDir`, making one where there is none. */
export function loadAuthority({ dataDir, clock }: { dataDir: string; clock: Clock }): Authority {
  const stored = openAuthority(dataDir, clock);
  // One key for all leaves, in memory only: it lives as long as this process.
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const publicKey = createPublicKey(privateKey);
  const key = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  const leaves = new Map<string, Leaf>();
  let minted = 0;

  function mint(host: string): Leaf {
    const now = clock.now();
    const notAfterMs = Math.min(now + leafLifetimeMs, stored.notAfterMs);
    const leaf = leafCertificate(stored, {
      host,
      publicKey,
      validity: { notBeforeMs: now - backdatedMs, notAfterMs },
    });
    const cert = leaf + stored.certPem;
    minted++;
    // Agents are not asked for certificates: an empty list spares parsing the public roots.
    const context = createSecureContext({ key, cert, ca: [], minVersion: 'TLSv1.2' });
    return { cert, key, notAfterMs, context };
  }

  return {
    certPem: stored.certPem,
    minted: () => minted,
    leafFor(host) {
      const held = leaves.get(host);
      const fresh = held !== undefined && held.notAfterMs - clock.now() > renewedBeforeMs;
      const leaf = fresh ? held : mint(host);
      // Insertion order is the order of use: the least recently used stands first.
      leaves.delete(host);
      leaves.set(host, leaf);
      if (leaves.size > leavesMax) leaves.delete(leaves.keys().next().value ?? host);
      return leaf;
    },
  };
}
