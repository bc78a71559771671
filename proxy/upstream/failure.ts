import { GatewayError } from '../../shared/errors.ts';
import type { Outcome } from './forwarding.ts';

type Failure = NonNullable<Outcome['failure']>;

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
// What X.509 verification says (openssl verify), and what TLS itself says.
const tlsInvalid =
  /^(?:ERR_TLS_|ERR_SSL_|EPROTO$|CERT_|CRL_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|INVALID_|PATH_LENGTH_|HOSTNAME_MISMATCH|CA_|EE_|KEYUSAGE_)/;

/**
 * Says in the sidecar's words how a connection to an upstream failed. `begun`: whether the request
 * had been put on a connection.
 */
export function classifyFailure(
  error: unknown,
  begun: boolean,
): { failure: Failure; detail: string } {
  const detail = error instanceof Error ? error.message : String(error);
  if (error instanceof AggregateError && error.errors.length > 0) {
    return classifyFailure(error.errors[0], begun);
  }
  if (error instanceof GatewayError && error.code === 'proxy.address_refused') {
    return { failure: 'proxy.address_refused', detail };
  }
  return { failure: failureOf(codeOf(error), begun), detail };
}

function failureOf(code: string, begun: boolean): Failure {
  if (timeouts.has(code)) return 'upstream.timeout';
  if (unreachable.has(code)) return 'upstream.unreachable';
  if (tlsInvalid.test(code)) return 'upstream.tls_invalid';
  return begun ? 'upstream.reset' : 'upstream.unreachable';
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}
