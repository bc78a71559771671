import { createPublicKey, generateKeyPairSync } from 'node:crypto';
import { createSecureContext, type SecureContext } from 'node:tls';
import type { Clock } from '../../shared/base/clock.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { leafCertificate } from '../../shared/x509/certificate.ts';
import { type NameConstraints, permits } from '../../shared/x509/name-constraints.ts';
import { openAuthority } from './authority-file.ts';

/** The certificate that the TLS server presents for one host. */
export interface Leaf {
  /** PEM: the leaf, then the authority. */
  readonly cert: string;
  /** PEM of the private key. */
  readonly key: string;
  readonly notAfterMs: number;
  readonly context: SecureContext;
}

/** The local certificate authority with which the sidecar intercepts its agent's HTTPS requests. */
export interface Authority {
  readonly certPem: string;
  /**
   * When the authority expires; a sidecar that starts less than 90 days before this time creates a
   * new authority.
   */
  readonly notAfterMs: number;
  /**
   * The reason why a leaf cannot be minted for a host at the moment (the name constraints exclude
   * the host, or too many new hosts arrived at once); otherwise undefined. Checked before the
   * CONNECT is answered.
   */
  refusal(host: string): GatewayError | undefined;
  /**
   * `host` must be in the canonical form of `normaliseHost`. Throws for hosts that are not
   * permitted.
   */
  leafFor(host: string): Leaf;
  /** Leaves minted since start. */
  minted(): number;
}

const hourMs = 3_600_000;
const leafLifetimeMs = 24 * hourMs;
const renewedBeforeMs = 6 * hourMs;
const backdatedMs = 24 * hourMs;
const leavesMax = 1000;
// Limits how many leaves an agent can cause to be minted: a burst, then a rate per second (about 2
// % of one core).
const newHostsAtOnce = 256;
const newHostsPerSecond = 64;

interface AuthorityOptions {
  readonly dataDir: string;
  readonly clock: Clock;
  /** The hosts for which the authority may issue certificates; undefined means any. */
  readonly permitted?: NameConstraints | undefined;
}

/** Opens the authority in `dataDir`, and creates one if it is missing. */
export function loadAuthority(options: AuthorityOptions): Authority {
  const { clock, permitted } = options;
  const stored = openAuthority(options);
  const takeNewHost = budget(clock);
  // All leaves share one key, which is in memory only and lives as long as this process.
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const publicKey = createPublicKey(privateKey);
  const key = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  const leaves = new Map<string, Leaf>();
  let minted = 0;

  function isFresh({ notAfterMs }: Leaf): boolean {
    // A leaf cannot outlive the authority, so one that expires with the authority is not renewed.
    return notAfterMs - clock.now() > renewedBeforeMs || notAfterMs === stored.notAfterMs;
  }

  function unpermitted(host: string): GatewayError | undefined {
    if (permitted === undefined || permits(permitted, host)) return undefined;
    return new GatewayError('proxy.host_not_permitted', {
      message: `${host} is outside of SALLYPORT_CA_NAME_CONSTRAINTS: TLS to it is not read, and so not forwarded.`,
    });
  }

  function mint(host: string): Leaf {
    const refused = unpermitted(host);
    if (refused !== undefined) throw refused;
    const now = clock.now();
    const notAfterMs = Math.min(now + leafLifetimeMs, stored.notAfterMs);
    const leaf = leafCertificate(stored, {
      host,
      publicKey,
      validity: { notBeforeMs: now - backdatedMs, notAfterMs },
    });
    const cert = leaf + stored.certPem;
    minted++;
    // Agents do not present certificates, so an empty `ca` list avoids parsing the public root
    // certificates.
    const context = createSecureContext({ key, cert, ca: [], minVersion: 'TLSv1.2' });
    return { cert, key, notAfterMs, context };
  }

  return {
    certPem: stored.certPem,
    notAfterMs: stored.notAfterMs,
    minted: () => minted,
    refusal(host) {
      const held = leaves.get(host);
      if (held !== undefined && isFresh(held)) return undefined;
      const refused = unpermitted(host);
      if (refused !== undefined) return refused;
      return takeNewHost() ? undefined : new GatewayError('proxy.hosts_too_many');
    },
    leafFor(host) {
      const held = leaves.get(host);
      const leaf = held !== undefined && isFresh(held) ? held : mint(host);
      // Insertion order is the order of use: the least recently used comes first.
      leaves.delete(host);
      leaves.set(host, leaf);
      if (leaves.size > leavesMax) leaves.delete(leaves.keys().next().value ?? host);
      return leaf;
    },
  };
}

/** A token bucket: each call consumes a token, and returns false if none is left. */
function budget(clock: Clock): () => boolean {
  let left = newHostsAtOnce;
  let seenAtMs = clock.monotonic();
  return () => {
    const now = clock.monotonic();
    left = Math.min(newHostsAtOnce, left + ((now - seenAtMs) / 1000) * newHostsPerSecond);
    seenAtMs = now;
    if (left < 1) return false;
    left--;
    return true;
  };
}
