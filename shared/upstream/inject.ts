import { formatAuthority } from '../base/host.ts';
import { foldCase } from '../binding/args.ts';
import type { HeldCredential } from '../binding/binding.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import { outboundHeaders, withHeader, withoutHeader } from './headers.ts';
import type { Outgoing } from './outgoing.ts';

const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

const loopbackHosts = /^(localhost|127\.\d+\.\d+\.\d+|::1)$/;

/**
 * The request as it may leave with its credential. A secret goes under TLS only, whatever scheme
 * was asked for, but to a port of this machine that it is bound to by its number: anybody here
 * could listen on another one, the agent too.
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
 * Puts a credential into a request in place of whatever the agent sent there. `bearer`:
 * `Authorization: Bearer`, unless a format says otherwise. `basic`: `format` is `user:{secret}`;
 * without one a secret with a colon is the pair, and any other the user name. Refuses secrets and
 * names that would break out of their place.
 */
export function injectCredential(request: Outgoing, credential: HeldCredential): Outgoing {
  // Parts of an answer that reflects the secret would each be harmless.
  const outgoing = { ...request, headers: withoutHeader(request.headers, 'range') };
  const { inject, secret } = credential;
  // Control characters of any kind end a header line somewhere (RFC 9110 section 5.5); a lone
  // surrogate has no bytes.
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
  // A name that hygiene would remove is no place for a credential.
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
    message: `Credential ${credential.id} cannot be injected: ${what} cannot stand there.`,
  });
}
