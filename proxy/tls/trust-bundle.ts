import { getCACertificates } from 'node:tls';

/**
 * The authorities that this process trusts and the local one, as one PEM file: most clients
 * replace their own list by the file they are given (`SSL_CERT_FILE`, `REQUESTS_CA_BUNDLE`, …).
 */
export function trustBundle(certPem: string): string {
  return [certPem, ...getCACertificates('default')].map((pem) => `${pem.trim()}\n`).join('');
}
