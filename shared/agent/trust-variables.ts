/**
 * Variables that name a PEM file of trusted certificate authorities. The file replaces the client's
 * own list, so it must contain the public authorities as well.
 */
export const replacingVariables = [
  'SSL_CERT_FILE',
  'REQUESTS_CA_BUNDLE',
  'CURL_CA_BUNDLE',
  'GIT_SSL_CAINFO',
  'PIP_CERT',
  // npm ignores NODE_EXTRA_CA_CERTS if its configuration names a CA file.
  'npm_config_cafile',
  'AWS_CA_BUNDLE',
  'CARGO_HTTP_CAINFO',
] as const;

/** Variables that name a PEM file of certificate authorities to trust in addition. */
export const addingVariables = ['NODE_EXTRA_CA_CERTS', 'DENO_CERT'] as const;

/** The files that a sidecar writes into `SALLYPORT_TRUST_BUNDLE_DIRECTORY`. */
export const trustFiles = { pem: 'ca-bundle.pem', java: 'truststore.p12' } as const;

/** Options with which Java trusts the authorities of a PKCS #12 file. */
export function javaTrustOptions(path: string): string {
  return `-Djavax.net.ssl.trustStore=${path} -Djavax.net.ssl.trustStoreType=PKCS12`;
}
