import type { IncomingMessage } from 'node:http';
import { type Authority, splitAuthority } from '../../shared/base/host.ts';
import type { ErrorCode } from '../../shared/errors/error-kinds.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { internalHost } from '../base/internal-host-name.ts';

/** The control data of a request that the ingress judges itself. */
export interface RequestHead {
  readonly host: string | undefined;
  readonly proxyAuthorization: string | undefined;
}

const refuse = (code: ErrorCode, message?: string) =>
  new GatewayError(code, message === undefined ? {} : { message });

/**
 * Reads the head of a request. Node's parser has already refused heads that are malformed according
 * to RFC 9112. This function also refuses heads that parsers are known to read differently.
 */
export function readHead(
  req: IncomingMessage,
  { headerCountMax, mayUpgrade }: { headerCountMax: number; mayUpgrade: boolean },
): RequestHead | GatewayError {
  const raw = req.rawHeaders;
  if (raw.length > headerCountMax * 2) return refuse('proxy.headers_too_large');
  let host: string | undefined;
  let proxyAuthorization: string | undefined;
  let lengths = 0;
  let codings = 0;
  for (let index = 0; index < raw.length; index += 2) {
    const value = raw[index + 1] ?? '';
    switch (raw[index]?.toLowerCase()) {
      case 'host':
        if (host !== undefined) return refuse('proxy.request_invalid', 'Host is given twice.');
        host = value;
        break;
      case 'content-length':
        lengths++;
        break;
      case 'transfer-encoding':
        codings++;
        if (value.toLowerCase() !== 'chunked') {
          return refuse('proxy.request_invalid', 'Only the chunked transfer coding is accepted.');
        }
        break;
      case 'upgrade':
        if (!mayUpgrade && !isIgnoredUpgrade(value)) return refuse('proxy.upgrade_refused');
        break;
      case 'proxy-authorization':
        if (proxyAuthorization !== undefined) {
          return refuse('proxy.request_invalid', 'Proxy-Authorization is given twice.');
        }
        proxyAuthorization = value;
        break;
    }
  }
  return framingFault(req, lengths, codings) ?? { host, proxyAuthorization };
}

/**
 * An offer of HTTP/2 in plain text (RFC 7540 section 3.2), which Java's HttpClient makes in every
 * call. A server may ignore the offer (RFC 9110 section 7.8); the header is hop-by-hop and not
 * forwarded.
 */
export function isIgnoredUpgrade(value: string): boolean {
  return /^[ \t]*h2c[ \t]*$/i.test(value);
}

/**
 * After a request with `Upgrade` and no body, Node's parser drops the remaining bytes of the
 * packet. The connection must close, so that the client knows that its next request has no response
 * (RFC 9112 section 9.3.2).
 */
export function endsParsing({ headers }: IncomingMessage): boolean {
  const { upgrade, 'content-length': length } = headers;
  if (upgrade === undefined || headers['transfer-encoding'] !== undefined) return false;
  return length === undefined || Number(length) === 0;
}

function framingFault(
  req: IncomingMessage,
  lengths: number,
  codings: number,
): GatewayError | undefined {
  const { method, httpVersion } = req;
  if (method === 'TRACE') return refuse('proxy.method_refused');
  if (httpVersion !== '1.1' && httpVersion !== '1.0') {
    return refuse('proxy.request_invalid', 'Only HTTP/1.1 and HTTP/1.0 are spoken here.');
  }
  if (lengths + codings > 1) {
    return refuse('proxy.request_invalid', 'The length of the body is given more than once.');
  }
  // RFC 9112 section 6.1: a transfer coding in HTTP/1.0 is a framing fault.
  if (codings > 0 && httpVersion === '1.0') {
    return refuse('proxy.request_invalid', 'HTTP/1.0 knows no transfer coding.');
  }
  return undefined;
}

/** The destination of a request. */
export interface Target extends Authority {
  readonly scheme: 'http' | 'https';
  /** Origin form: path and query. */
  readonly path: string;
}

const visible = /^[\x21-\x7e]+$/;

/** A host must be ASCII, because parsers interpret other bytes differently. */
function authorityIn(text: string | undefined, defaultPort?: number): Authority | undefined {
  return visible.test(text ?? '') ? splitAuthority(text ?? '', defaultPort) : undefined;
}

/** The target of a request inside a CONNECT, which named the authority. */
export function innerTarget(
  req: IncomingMessage,
  host: string | undefined,
  inside: Authority & { readonly scheme: 'http' | 'https' },
): Target | GatewayError {
  const path = req.url ?? '';
  if (!isOriginForm(path)) {
    return refuse('proxy.request_invalid', 'Inside CONNECT only the origin form is accepted.');
  }
  const agreed = agrees({
    host,
    authority: inside,
    defaultPort: inside.scheme === 'https' ? 443 : 80,
    mayLack: req.httpVersion === '1.0',
  });
  return agreed ?? { ...inside, path };
}

/** The target of a request on a redirected connection to `port`. */
export function redirectedTarget(
  req: IncomingMessage,
  host: string | undefined,
  port: number,
): Target | GatewayError {
  const path = req.url ?? '';
  if (!isOriginForm(path)) {
    return refuse(
      'proxy.request_invalid',
      'On a redirected connection only the origin form is accepted.',
    );
  }
  if (host === undefined) return refuse('proxy.request_invalid', 'Host is missing.');
  const named = authorityIn(host, 80);
  if (named === undefined) return refuse('proxy.request_invalid', 'Host is not valid.');
  return named.port === port ? { ...named, scheme: 'http', path } : refuse('proxy.host_mismatch');
}

/**
 * The target of a request outside a CONNECT: in absolute form, or in origin form for the sidecar's
 * own host.
 */
export function plainTarget(req: IncomingMessage, host: string | undefined): Target | GatewayError {
  const url = req.url ?? '';
  if (url.startsWith('/')) return ownTarget(req, host);
  const parts = /^http:\/\/([^/?]*)(\/[^?]*)?(\?.*)?$/i.exec(url);
  if (parts === null || !visible.test(url) || url.includes('#')) {
    return refuse(
      'proxy.request_invalid',
      'Send http:// requests in absolute form, and CONNECT for https:// ones.',
    );
  }
  const authority = authorityIn(parts[1], 80);
  if (authority === undefined) return refuse('proxy.request_invalid', 'The host is not valid.');
  const mayLack = req.httpVersion === '1.0';
  const agreed = agrees({ host, authority, defaultPort: 80, mayLack });
  const path = `${parts[2] ?? '/'}${parts[3] ?? ''}`;
  return agreed ?? { ...authority, scheme: 'http', path };
}

/** Accepts origin form for the sidecar's own host only, because a proxy is not a web server. */
function ownTarget(req: IncomingMessage, host: string | undefined): Target | GatewayError {
  const authority = authorityIn(host, 80);
  if (authority?.host !== internalHost || !isOriginForm(req.url ?? '')) {
    return refuse('proxy.request_invalid', 'This is a proxy: send absolute-form requests.');
  }
  return { ...authority, scheme: 'http', path: req.url ?? '' };
}

function isOriginForm(path: string): boolean {
  return path.startsWith('/') && visible.test(path) && !path.includes('#');
}

interface Agreement {
  readonly host: string | undefined;
  readonly authority: Authority;
  readonly defaultPort: number;
  readonly mayLack: boolean;
}

/** Undefined if the Host header matches the authority, including the port. */
function agrees({ host, authority, defaultPort, mayLack }: Agreement): GatewayError | undefined {
  if (host === undefined) {
    return mayLack ? undefined : refuse('proxy.request_invalid', 'Host is missing.');
  }
  const named = authorityIn(host, defaultPort);
  if (named === undefined) return refuse('proxy.request_invalid', 'Host is not valid.');
  const same = named.host === authority.host && named.port === authority.port;
  return same ? undefined : refuse('proxy.host_mismatch');
}

/** The destination of a CONNECT. Its Host header may omit the port of the authority. */
export function connectTarget(
  req: IncomingMessage,
  host: string | undefined,
): Authority | GatewayError {
  const authority = authorityIn(req.url);
  if (authority === undefined) {
    return refuse('proxy.request_invalid', 'CONNECT needs host:port.');
  }
  const { 'content-length': length, 'transfer-encoding': coding } = req.headers;
  if (length !== undefined || coding !== undefined) {
    return refuse('proxy.request_invalid', 'CONNECT has no body.');
  }
  return agrees({ host, authority, defaultPort: authority.port, mayLack: true }) ?? authority;
}
