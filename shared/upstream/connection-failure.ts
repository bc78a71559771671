import { GatewayError } from '../errors/gateway-error.ts';

/** The reason why an upstream gave no complete response. */
export type ConnectionFailure =
  | 'upstream.unreachable'
  | 'upstream.timeout'
  | `upstream.certificate_${'expired' | 'not_yet_valid' | 'self_signed' | 'untrusted' | 'weak' | 'wrong_host'}`
  | 'upstream.tls_version'
  | 'upstream.tls_invalid'
  | 'upstream.reset'
  | 'proxy.address_refused';

const timeouts = new Set([
  'UND_ERR_CONNECT_TIMEOUT',
  'UND_ERR_HEADERS_TIMEOUT',
  'UND_ERR_BODY_TIMEOUT',
  'ETIMEDOUT',
]);
const unreachable = new Set([
  'ENOTFOUND',
  'EAI_AGAIN',
  'EAI_FAIL',
  'EAI_NODATA',
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'EHOSTDOWN',
  'ENETUNREACH',
  'ENETDOWN',
  'EADDRNOTAVAIL',
  'UND_ERR_INVALID_ARG',
]);
// OpenSSL's verification errors, and codes of failed TLS handshakes.
const certificateFailures = {
  CERT_HAS_EXPIRED: 'upstream.certificate_expired',
  CERT_NOT_YET_VALID: 'upstream.certificate_not_yet_valid',
  ERR_TLS_CERT_ALTNAME_INVALID: 'upstream.certificate_wrong_host',
  HOSTNAME_MISMATCH: 'upstream.certificate_wrong_host',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'upstream.certificate_self_signed',
  SELF_SIGNED_CERT_IN_CHAIN: 'upstream.certificate_untrusted',
  UNABLE_TO_GET_ISSUER_CERT: 'upstream.certificate_untrusted',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'upstream.certificate_untrusted',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'upstream.certificate_untrusted',
  CERT_UNTRUSTED: 'upstream.certificate_untrusted',
  ERR_SSL_EE_KEY_TOO_SMALL: 'upstream.certificate_weak',
  ERR_SSL_CA_KEY_TOO_SMALL: 'upstream.certificate_weak',
  ERR_SSL_CA_MD_TOO_WEAK: 'upstream.certificate_weak',
  ERR_SSL_UNSUPPORTED_PROTOCOL: 'upstream.tls_version',
  ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION: 'upstream.tls_version',
} as const satisfies Record<string, ConnectionFailure>;
const tlsInvalid =
  /^(?:UNSPECIFIED$|ERR_TLS_|ERR_SSL_|EPROTO$|CERT_|CRL_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|INVALID_|PATH_LENGTH_|HOSTNAME_MISMATCH|CA_|EE_|KEYUSAGE_)/;

/**
 * Classifies a failed connection to an upstream. `begun`: whether the request had been written to a
 * connection.
 */
export function classifyFailure(
  error: unknown,
  begun: boolean,
): { failure: ConnectionFailure; detail: string } {
  const detail = error instanceof Error ? error.message : String(error);
  if (error instanceof AggregateError && error.errors.length > 0) {
    return classifyFailure(error.errors[0], begun);
  }
  if (error instanceof GatewayError && error.code === 'proxy.address_refused') {
    return { failure: 'proxy.address_refused', detail };
  }
  return { failure: failureOf({ code: codeOf(error), detail }, begun), detail };
}

function failureOf(
  { code, detail }: { readonly code: string; readonly detail: string },
  begun: boolean,
): ConnectionFailure {
  if (timeouts.has(code)) return 'upstream.timeout';
  if (unreachable.has(code)) return 'upstream.unreachable';
  const named = (certificateFailures as Readonly<Record<string, ConnectionFailure>>)[code];
  if (named !== undefined) return named;
  // Node has no code for some OpenSSL errors, only their text.
  if (code === 'UNSPECIFIED' && /too (?:weak|small)/.test(detail))
    return 'upstream.certificate_weak';
  if (tlsInvalid.test(code)) return 'upstream.tls_invalid';
  return begun ? 'upstream.reset' : 'upstream.unreachable';
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}
