import {
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomUUID,
  X509Certificate,
} from 'node:crypto';
import {
  authorityCertificate,
  leafCertificate,
  readPrivateKey,
} from '../../shared/x509/certificate.ts';

/** Certificates and keys of the webhook, PEM. All replicas share them through a Secret. */
export interface Material {
  /** The authorities that the API server trusts; the first one signs. */
  readonly authorities: readonly string[];
  readonly authorityKey: string;
  readonly cert: string;
  readonly key: string;
}

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const backdatedMs = hourMs;
const authorityLifetimeMs = 90 * dayMs;
const authorityRenewedBeforeMs = 30 * dayMs;
const leafLifetimeMs = dayMs;
const leafRenewedBeforeMs = 8 * hourMs;
/** After this time, every replica has published a new authority to the API server many times. */
const authorityPublishedAfterMs = 10 * 60_000;
/** A leaf with less time left is renewed even if its new authority may not have been published. */
const leafUrgentMs = hourMs;

interface Circumstances {
  readonly nowMs: number;
  /** DNS name of the webhook's service. */
  readonly host: string;
}

/**
 * Returns the material to use now: `current` itself while it is good. A new authority is added to
 * the existing ones. It signs no leaf before the API server had time to learn it, so that clients
 * can verify every leaf; the exception is the renewal of a leaf that is about to expire.
 */
export function renewed(current: Material | undefined, circumstances: Circumstances): Material {
  const { nowMs } = circumstances;
  if (current === undefined || !isConsistent(current, circumstances)) return created(circumstances);
  const valid = current.authorities.filter((pem) => notAfterMs(pem) > nowMs);
  const [signer] = valid;
  if (signer === undefined || signer !== current.authorities[0]) return created(circumstances);
  const isDue = notAfterMs(signer) - nowMs < authorityRenewedBeforeMs;
  const next = isDue ? withNewAuthority(current, valid, nowMs) : withAuthorities(current, valid);
  return mustRenewLeaf(next, nowMs) ? { ...next, ...leafOf(next, circumstances) } : next;
}

/** When the webhook's certificate expires. */
export function expiryMs({ cert }: Material): number {
  return notAfterMs(cert);
}

function created(circumstances: Circumstances): Material {
  const authority = newAuthority(circumstances.nowMs);
  return { ...authority, ...leafOf(authority, circumstances) };
}

function withNewAuthority(current: Material, valid: readonly string[], nowMs: number): Material {
  const { authorities, authorityKey } = newAuthority(nowMs);
  return { ...current, authorities: [...authorities, ...valid], authorityKey };
}

function withAuthorities(current: Material, valid: readonly string[]): Material {
  return valid.length === current.authorities.length ? current : { ...current, authorities: valid };
}

function mustRenewLeaf({ authorities: [signer = ''], cert }: Material, nowMs: number): boolean {
  const leftMs = notAfterMs(cert) - nowMs;
  const createdMs = new X509Certificate(signer).validFromDate.getTime() + backdatedMs;
  const isPublished = nowMs - createdMs >= authorityPublishedAfterMs;
  return leftMs < leafUrgentMs || (leftMs < leafRenewedBeforeMs && isPublished);
}

type Authority = Pick<Material, 'authorities' | 'authorityKey'>;

function newAuthority(nowMs: number): Authority {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  // Every authority has its own name, because trust stores identify certificates by subject.
  const commonName = `Sallyport injector authority ${randomUUID().slice(0, 8)}`;
  const validity = { notBeforeMs: nowMs - backdatedMs, notAfterMs: nowMs + authorityLifetimeMs };
  const cert = authorityCertificate({ key: privateKey, commonName }, validity);
  return { authorities: [cert], authorityKey: pemOf(privateKey) };
}

function leafOf(
  { authorities: [signer = ''], authorityKey }: Authority,
  { nowMs, host }: Circumstances,
): Pick<Material, 'cert' | 'key'> {
  const key = readPrivateKey(authorityKey);
  if (key === undefined) throw new Error('The key of the authority cannot be read.');
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const validity = {
    notBeforeMs: nowMs - backdatedMs,
    notAfterMs: Math.min(nowMs + leafLifetimeMs, notAfterMs(signer)),
  };
  const issuer = { key, commonName: commonNameOf(signer) };
  const cert = leafCertificate(issuer, { host, publicKey, validity });
  return { cert, key: pemOf(privateKey) };
}

/** False for material that was damaged, or made for another service. */
function isConsistent(material: Material, { host }: Circumstances): boolean {
  try {
    const { authorities, authorityKey, cert, key } = material;
    const leaf = new X509Certificate(cert);
    const known = authorities.map((pem) => new X509Certificate(pem));
    const [leafKey, signerKey] = [readPrivateKey(key), readPrivateKey(authorityKey)];
    const isSigned = known.some((authority) => leaf.verify(authority.publicKey));
    return (
      isSigned &&
      leaf.checkHost(host) !== undefined &&
      leafKey !== undefined &&
      leaf.checkPrivateKey(leafKey) &&
      signerKey !== undefined &&
      known[0]?.publicKey.equals(createPublicKey(signerKey)) === true
    );
  } catch {
    return false;
  }
}

function notAfterMs(pem: string): number {
  return new X509Certificate(pem).validToDate.getTime();
}

function commonNameOf(pem: string): string {
  return /^CN=(.+)$/m.exec(new X509Certificate(pem).subject)?.[1] ?? '';
}

function pemOf(key: KeyObject): string {
  return key.export({ type: 'pkcs8', format: 'pem' }).toString();
}
