import {
  createHash,
  createPrivateKey,
  createPublicKey,
  type KeyObject,
  randomBytes,
  sign,
  type X509Certificate,
} from 'node:crypto';
import asn1 from 'node-forge/lib/asn1.js';
import { parseAddress } from '../base/address.ts';
import { isAddress } from '../base/host.ts';
import {
  bitString,
  boolean,
  context,
  der,
  integer,
  type Node,
  octets,
  oid,
  pem,
  primitiveContext,
  sequence,
  universal,
} from './der.ts';
import type { NameConstraints } from './name-constraints.ts';

const oids = {
  commonName: '2.5.4.3',
  organization: '2.5.4.10',
  ecdsaWithSha256: '1.2.840.10045.4.3.2',
  subjectKeyIdentifier: '2.5.29.14',
  keyUsage: '2.5.29.15',
  subjectAltName: '2.5.29.17',
  basicConstraints: '2.5.29.19',
  nameConstraints: '2.5.29.30',
  authorityKeyIdentifier: '2.5.29.35',
  extendedKeyUsage: '2.5.29.37',
  serverAuth: '1.3.6.1.5.5.7.3.1',
} as const;

interface Validity {
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
}

/** The signer: the authority's key, and the name in the authority's certificate. */
interface Issuer {
  readonly key: KeyObject;
  readonly commonName: string;
}

const organization = 'Sallyport';
// RFC 5280, upper bound of a common name.
const commonNameMax = 64;

/**
 * A self-signed certificate for `issuer` as PEM, which can sign leaves but no further authorities.
 * With `permitted`, clients refuse leaves for all other hosts.
 */
export function authorityCertificate(
  issuer: Issuer,
  validity: Validity,
  permitted?: NameConstraints,
): string {
  const publicKey = createPublicKey(issuer.key);
  const constraints = permitted === undefined ? [] : [nameConstraints(permitted)];
  return certificate({
    issuer,
    commonName: issuer.commonName,
    publicKey,
    validity,
    extensions: [
      extension(oids.basicConstraints, sequence(boolean(true), integer(0)), true),
      // Bits 5 and 6: keyCertSign and cRLSign.
      extension(oids.keyUsage, bitString('\x01\x06'), true),
      extension(oids.subjectKeyIdentifier, octets(keyIdentifier(publicKey))),
      extension(oids.authorityKeyIdentifier, authorityKeyIdentifier(publicKey)),
      ...constraints,
    ],
  });
}

/** True if an authority's certificate permits exactly these hosts; undefined means all hosts. */
export function hasConstraints(cert: X509Certificate, permitted?: NameConstraints): boolean {
  const wanted = permitted === undefined ? oid(oids.nameConstraints) : nameConstraints(permitted);
  return cert.raw.includes(der(wanted), 0, 'latin1') === (permitted !== undefined);
}

/** A server certificate for one host, a DNS name or an IP address, signed by `issuer`. PEM. */
export function leafCertificate(
  issuer: Issuer,
  { host, publicKey, validity }: { host: string; publicKey: KeyObject; validity: Validity },
): string {
  return certificate({
    issuer,
    // Omits the common name for an address or an overlong name, because the SAN is enough.
    commonName: host.length <= commonNameMax && !isAddress(host) ? host : undefined,
    publicKey,
    validity,
    extensions: [
      extension(oids.basicConstraints, sequence(), true),
      // Bit 0: digitalSignature, the only use of an EC key in TLS.
      extension(oids.keyUsage, bitString('\x07\x80'), true),
      extension(oids.extendedKeyUsage, sequence(oid(oids.serverAuth))),
      extension(oids.subjectAltName, sequence(generalName(host))),
      extension(oids.subjectKeyIdentifier, octets(keyIdentifier(publicKey))),
      extension(oids.authorityKeyIdentifier, authorityKeyIdentifier(createPublicKey(issuer.key))),
    ],
  });
}

interface Contents {
  readonly issuer: Issuer;
  readonly commonName: string | undefined;
  readonly publicKey: KeyObject;
  readonly validity: Validity;
  readonly extensions: readonly Node[];
}

/**
 * Builds a certificate (RFC 5280 section 4.1). node:crypto signs it, because signing with
 * node-forge takes 25 ms.
 */
function certificate({ issuer, commonName, publicKey, validity, extensions }: Contents): string {
  const algorithm = sequence(oid(oids.ecdsaWithSha256));
  const toBeSigned = sequence(
    context(0, [integer(2)]),
    serialNumber(),
    algorithm,
    distinguishedName(issuer.commonName),
    sequence(time(validity.notBeforeMs), time(validity.notAfterMs)),
    distinguishedName(commonName),
    asn1.fromDer(publicKey.export({ type: 'spki', format: 'der' }).toString('latin1')),
    context(3, [sequence(...extensions)]),
  );
  const signature = sign('sha256', Buffer.from(der(toBeSigned), 'latin1'), issuer.key);
  const signed = sequence(toBeSigned, algorithm, bitString(`\0${signature.toString('latin1')}`));
  return pem('CERTIFICATE', Buffer.from(der(signed), 'latin1'));
}

/** Positive and never zero, 127 bits of randomness (RFC 5280 section 4.1.2.2). */
function serialNumber(): Node {
  const bytes = randomBytes(16);
  bytes[0] = ((bytes[0] ?? 0) & 0x3f) | 0x40;
  return universal(asn1.Type.INTEGER, bytes.toString('latin1'));
}

function distinguishedName(commonName: string | undefined): Node {
  const attribute = (type: string, value: string) =>
    universal(asn1.Type.SET, [sequence(oid(type), universal(asn1.Type.UTF8, value))]);
  return sequence(
    attribute(oids.organization, organization),
    ...(commonName === undefined ? [] : [attribute(oids.commonName, commonName)]),
  );
}

/** UTCTime up to 2049, GeneralizedTime from 2050 (RFC 5280 section 4.1.2.5). */
function time(ms: number): Node {
  const date = new Date(ms);
  return date.getUTCFullYear() < 2050
    ? universal(asn1.Type.UTCTIME, asn1.dateToUtcTime(date))
    : universal(asn1.Type.GENERALIZEDTIME, asn1.dateToGeneralizedTime(date));
}

function extension(id: string, value: Node, critical = false): Node {
  const parts = critical ? [oid(id), boolean(true)] : [oid(id)];
  return sequence(...parts, octets(der(value)));
}

/** `dNSName` is context tag 2, `iPAddress` context tag 7 (RFC 5280 section 4.2.1.6). */
function generalName(host: string): Node {
  const address = parseAddress(host);
  return address === undefined
    ? primitiveContext(2, host)
    : primitiveContext(7, Buffer.from(address.bytes).toString('latin1'));
}

/**
 * Builds name constraints (RFC 5280 section 4.2.1.10). They restrict only the kinds of names that
 * they mention, so IPv4 or IPv6 is excluded explicitly if no range of this kind is permitted.
 */
function nameConstraints({ names, ranges }: NameConstraints): Node {
  const permitted = [
    ...names.map((name) => primitiveContext(2, name)),
    ...ranges.map(({ address, prefixBits }) => addressSubtree(address.bytes, prefixBits)),
  ];
  const excluded = [4, 16]
    .filter((length) => !ranges.some(({ address }) => address.bytes.length === length))
    .map((length) => addressSubtree(new Uint8Array(length), 0));
  const subtrees = (tag: number, bases: Node[]) =>
    bases.length === 0
      ? []
      : [
          context(
            tag,
            bases.map((base) => sequence(base)),
          ),
        ];
  return extension(
    oids.nameConstraints,
    sequence(...subtrees(0, permitted), ...subtrees(1, excluded)),
    true,
  );
}

/** An address and its mask, the form of an address range in constraints. */
function addressSubtree(bytes: Uint8Array, prefixBits: number): Node {
  const mask = bytes.map(
    (_, index) => (0xff00 >> Math.min(8, Math.max(0, prefixBits - index * 8))) & 0xff,
  );
  return primitiveContext(7, Buffer.from([...bytes, ...mask]).toString('latin1'));
}

function authorityKeyIdentifier(publicKey: KeyObject): Node {
  return sequence(primitiveContext(0, keyIdentifier(publicKey)));
}

/** RFC 7093 section 2, method 4: the first 160 bits of a hash over the SubjectPublicKeyInfo. */
function keyIdentifier(publicKey: KeyObject): string {
  const spki = publicKey.export({ type: 'spki', format: 'der' });
  return createHash('sha256').update(spki).digest().subarray(0, 20).toString('latin1');
}

/**
 * A private key from PEM; undefined unless it is an EC key on P-256, which is what Sallyport
 * creates.
 */
export function readPrivateKey(text: string): KeyObject | undefined {
  try {
    const key = createPrivateKey(text);
    return key.asymmetricKeyDetails?.namedCurve === 'prime256v1' ? key : undefined;
  } catch {
    return undefined;
  }
}
