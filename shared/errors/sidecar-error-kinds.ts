import { type ErrorKind, failure, fault, outage, upstream } from './error-kind.ts';

/** The reason codes of the proxy, of MCP and of upstreams; part of `errorKinds`. */
export const sidecarErrorKinds = {
  'proxy.auth_required': fault(407, 'The proxy requires its token; send Proxy-Authorization.'),
  'proxy.host_mismatch': fault(
    421,
    'The CONNECT authority, the SNI and the Host header must match.',
  ),
  'proxy.host_not_permitted': fault(
    403,
    "The sidecar's certificate authority is not permitted to issue a certificate for this host (SALLYPORT_CA_NAME_CONSTRAINTS).",
  ),
  'proxy.hosts_too_many': {
    status: 429,
    retryable: true,
    ownStatus: true,
    level: 'info',
    text: 'Too many new host names at once; retry in a moment.',
  },
  'proxy.tls_failed': fault(400, 'The TLS handshake with the agent failed.'),
  'proxy.request_invalid': fault(400, 'The proxy does not forward this kind of request.'),
  'proxy.request_timeout': fault(408, 'The request did not arrive in time.'),
  'proxy.protocol_refused': fault(403, 'This protocol is not forwarded.'),
  'proxy.tls_required': fault(
    403,
    'The tunnel to port 443 carries no TLS; send https:// requests, or http:// ones without CONNECT.',
  ),
  'proxy.tls_hello_invalid': fault(
    400,
    'The TLS ClientHello in the tunnel is malformed; use a TLS library that follows RFC 8446.',
  ),
  'proxy.tls_hello_too_large': fault(
    431,
    'The TLS ClientHello in the tunnel exceeds 32 KiB; offer fewer extensions and key shares.',
  ),
  'proxy.tls_hello_timeout': fault(
    408,
    'No complete TLS ClientHello arrived in the tunnel in time; send it right after CONNECT.',
  ),
  'proxy.ech_refused': fault(
    403,
    'The TLS ClientHello in the tunnel uses Encrypted Client Hello, which hides the server name; turn ECH and its GREASE off.',
  ),
  'proxy.sni_missing': fault(
    421,
    'The TLS ClientHello in the tunnel has no SNI; send SNI with the host of the CONNECT.',
  ),
  'proxy.sni_mismatch': fault(
    421,
    'The TLS ClientHello in the tunnel has a different SNI from the CONNECT; send SNI with the host of the CONNECT.',
  ),
  'proxy.upgrade_refused': fault(403, 'No binding allows an HTTP upgrade on this path.', {
    mayBeUnbound: true,
  }),
  'proxy.method_refused': fault(405, 'This method is not forwarded.'),
  'proxy.address_refused': fault(
    403,
    "The address is not allowed (private, loopback or the gateway's own); see SALLYPORT_ALLOW_PRIVATE.",
  ),
  'proxy.path_refused': fault(
    400,
    'The path has an encoding that different servers read differently; send it in its canonical form.',
  ),
  'proxy.too_many_connections': failure(503, 'The agent has too many open connections.'),
  'proxy.too_many_tunnels': failure(503, 'The agent has too many open tunnels.'),
  'proxy.too_many_held': failure(503, 'Too many calls are already held for approval.'),
  'proxy.buffers_full': failure(
    503,
    "The sidecar's memory budget for request bodies is exhausted; retry in a moment.",
  ),
  'proxy.draining': failure(503, 'The sidecar is shutting down.'),
  'proxy.headers_too_large': fault(431, 'The request headers exceed the limit.'),
  'proxy.content_type_refused': fault(415, 'The binding does not accept this content type.'),
  'proxy.unbound_call': fault(403, 'This host accepts only calls that match a binding.', {
    mayBeUnbound: true,
  }),
  'mcp.malformed': fault(400, 'The MCP message is not valid.', { rpc: 'invalid_request' }),
  'mcp.batch_refused': fault(400, 'JSON-RPC batches are not forwarded.', {
    rpc: 'invalid_request',
  }),
  'mcp.header_mismatch': fault(400, 'The MCP headers do not match the body.', {
    rpc: 'header_mismatch',
    isHttpError: true,
  }),
  'mcp.meta_missing': fault(
    400,
    'Since MCP revision 2026-07-28, a request must carry its protocol version in params._meta.',
    { rpc: 'invalid_params', isHttpError: true },
  ),
  'mcp.transport_unsupported': fault(
    405,
    'The HTTP+SSE transport of MCP 2024-11-05 is not supported; use Streamable HTTP.',
  ),
  'mcp.answer_refused': fault(
    502,
    "The MCP server's response is ambiguous (parsers may disagree on it), so it was blocked.",
  ),
  'bus.unavailable': outage(503, 'The sync bus (Redis) is unreachable.'),
  'store.unavailable': outage(503, 'The database is unreachable.'),
  'sync.no_snapshot': outage(503, 'The sidecar has not received verified policies yet.'),
  'upstream.unreachable': upstream(502, 'The upstream is unreachable.', { isUnanswered: true }),
  'upstream.timeout': upstream(504, 'The upstream did not respond in time.', {
    isUnanswered: true,
  }),
  'upstream.certificate_expired': upstream(502, "The upstream's certificate has expired."),
  'upstream.certificate_not_yet_valid': upstream(
    502,
    "The upstream's certificate is not valid yet according to the sidecar's clock.",
  ),
  'upstream.certificate_self_signed': upstream(
    502,
    "The upstream's certificate is self-signed; an operator can trust it with NODE_EXTRA_CA_CERTS.",
  ),
  'upstream.certificate_untrusted': upstream(
    502,
    "The upstream's certificate was not issued by a trusted authority; add one with NODE_EXTRA_CA_CERTS.",
  ),
  'upstream.certificate_weak': upstream(
    502,
    "The upstream's certificate has a weak key or a weak signature algorithm.",
  ),
  'upstream.certificate_wrong_host': upstream(
    502,
    "The upstream's certificate is for a different host.",
  ),
  'upstream.tls_version': upstream(502, 'The upstream does not support TLS 1.2 or later.'),
  'upstream.tls_invalid': upstream(502, 'Could not establish a TLS connection to the upstream.'),
  'upstream.upgrade_refused': upstream(502, 'The upstream did not open the WebSocket.'),
  'upstream.reset': upstream(
    502,
    'The upstream closed the connection before the response was complete.',
  ),
} as const satisfies Record<string, ErrorKind>;
