import { formatAuthority } from '../base/host.ts';
import { foldCase } from '../binding/args.ts';
import type { HeldCredential } from '../binding/binding.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import { outboundHeaders, withHeader, withoutHeader } from './headers.ts';
import type { Outgoing } from './outgoing.ts';

const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

const loopbackHosts = /^(localhost|127\.\d+\.\d+\.\d+|::1)$/;

/**
 * Adds the credential to a request. A secret is sent over TLS only, except to a port of this
 * machine that the credential names. Other local ports are not exempt, because any program,
 * including the agent, can listen on them.
 */
export function withCredential(
  outgoing: Outgoing,
  credential: HeldCredential | undefined,
): Outgoing {
  if (credential === undefined) return outgoing;
  const { scheme, host } = outgoing;
  const isNamed = credential.bind.hosts.includes(formatAuthority(outgoing));
  if (scheme === 'http' && !(loopbackHosts.test(host) && isNamed)) {
    throw new GatewayError('credential.insecure_transport');
  }
  return injectCredential(outgoing, credential);
}

/**
 * Replaces any credential that the agent sent. `bearer`: `Authorization: Bearer`, unless a format
 * is set. `basic`: `format` is `user:{secret}`; without a format, a secret that contains a colon is
 * user name and password, and any other secret is the user name alone. Refuses secrets and names
 * that could inject headers or parameters.
 */
export function injectCredential(request: Outgoing, credential: HeldCredential): Outgoing {
  // Range responses could reflect the secret in parts that each look harmless.
  const outgoing = { ...request, headers: withoutHeader(request.headers, 'range') };
  const { inject, secret } = credential;
  // Some parsers end a header line at other control characters (RFC 9110 section 5.5). A lone
  // surrogate has no UTF-8 encoding.
  if (/[\p{Cc}\p{Cs}]/u.test(secret) || secret === '') throw unusable(credential, 'its secret');
  switch (inject.in) {
    case 'bearer':
      return withValue(outgoing, credential, 'authorization', spell(credential, 'Bearer {secret}'));
    case 'header':
      return withValue(outgoing, credential, headerName(credential), spell(credential, '{secret}'));
    case 'basic':
      return withValue(outgoing, credential, 'authorization', basic(credential));
    case 'query':
      return withQuery(outgoing, credential);
  }
}

function spell({ inject, secret }: HeldCredential, byDefault: string): string {
  return (inject.format ?? byDefault).replaceAll('{secret}', () => secret);
}

function basic(credential: HeldCredential): string {
  const pair = spell(credential, credential.secret.includes(':') ? '{secret}' : '{secret}:');
  return `Basic ${Buffer.from(pair).toString('base64')}`;
}

function headerName(credential: HeldCredential): string {
  const name = credential.inject.name ?? '';
  // `outboundHeaders` would remove a credential under such a name.
  const removable = outboundHeaders([name, '']).length === 0;
  if (!token.test(name) || removable) throw unusable(credential, 'its header name');
  return name;
}

function withValue(
  outgoing: Outgoing,
  credential: HeldCredential,
  name: string,
  value: string,
): Outgoing {
  if (!/^[\x20-\x7e]+$/.test(value)) throw unusable(credential, 'its secret or format');
  return { ...outgoing, headers: withHeader(outgoing.headers, name, value) };
}

function withQuery(outgoing: Outgoing, credential: HeldCredential): Outgoing {
  const { name } = credential.inject;
  if (name === undefined || name === '') throw unusable(credential, 'its parameter name');
  const [path = '', ...rest] = outgoing.path.split('?');
  const kept = rest
    .join('?')
    .split('&')
    .filter((pair) => pair !== '' && foldCase(parameterName(pair)) !== foldCase(name));
  const value = spell(credential, '{secret}');
  const added = `${encodeURIComponent(name)}=${encodeURIComponent(value)}`;
  return { ...outgoing, path: `${path}?${[...kept, added].join('&')}` };
}

function parameterName(pair: string): string {
  const name = (pair.split('=')[0] ?? '').replaceAll('+', ' ');
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

function unusable(credential: HeldCredential, what: string): GatewayError {
  return new GatewayError('credential.invalid', {
    message: `Credential ${credential.id} cannot be injected: ${what} is missing or has characters that are not allowed there; correct the credential.`,
  });
}
