import asn1 from 'node-forge/lib/asn1.js';
import { context, der, integer, type Node, octets, oid, sequence, universal } from './der.ts';

const oids = {
  data: '1.2.840.113549.1.7.1',
  certBag: '1.2.840.113549.1.12.10.1.3',
  x509Certificate: '1.2.840.113549.1.9.22.1',
  friendlyName: '1.2.840.113549.1.9.20',
  trustedKeyUsage: '2.16.840.1.113894.746875.1.1',
  anyExtendedKeyUsage: '2.5.29.37.0',
} as const;

/**
 * A PKCS #12 file (RFC 7292) of trusted certificates, for `javax.net.ssl.trustStore`. Certificates
 * are public, so nothing is encrypted and there is no MAC: Java opens the file without a password.
 */
export function javaTrustStore(bundlePem: string): Buffer {
  const bags = certificatesIn(bundlePem).map(certificateBag);
  const safe = sequence(content(der(sequence(...bags))));
  return Buffer.from(der(sequence(integer(3), content(der(safe)))), 'latin1');
}

function certificatesIn(pem: string): string[] {
  const blocks = pem.matchAll(/-----BEGIN CERTIFICATE-----([^-]+)-----END CERTIFICATE-----/g);
  return [...blocks].map(([, base64 = '']) => Buffer.from(base64, 'base64').toString('latin1'));
}

/** Java ignores certificates without Oracle's attribute `trustedKeyUsage`. */
function certificateBag(certificate: string, index: number): Node {
  return sequence(
    oid(oids.certBag),
    context(0, [sequence(oid(oids.x509Certificate), context(0, [octets(certificate)]))]),
    set(
      sequence(oid(oids.friendlyName), set(bmpString(`sallyport-${index}`))),
      sequence(oid(oids.trustedKeyUsage), set(oid(oids.anyExtendedKeyUsage))),
    ),
  );
}

/** A ContentInfo of the type `data`. */
function content(bytes: string): Node {
  return sequence(oid(oids.data), context(0, [octets(bytes)]));
}

function set(...members: Node[]): Node {
  return universal(asn1.Type.SET, members);
}

function bmpString(text: string): Node {
  return universal(asn1.Type.BMPSTRING, Buffer.from(text, 'utf16le').swap16().toString('latin1'));
}
