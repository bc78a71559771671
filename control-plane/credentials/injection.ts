import type { CredentialInjection } from '../../shared/binding/binding.ts';

const neverCarriers =
  /^(connection|keep-alive|te|trailer|transfer-encoding|upgrade|host|content-length|expect|http2-settings|(proxy|sallyport|action)-.*)$/i;
const place = '{secret}';

/**
 * Returns the reason why this secret cannot be injected as configured, or undefined if it can. A
 * credential with such a problem is not stored, because its calls would fail. The reason never
 * contains the secret.
 */
export function injectionProblem(
  { in: where, name, format }: CredentialInjection,
  secret: string,
): string | undefined {
  // Some parsers end a header line at a control character; a lone surrogate has no UTF-8 encoding.
  if (/[\p{Cc}\p{Cs}]/u.test(secret)) return 'secret: must not hold control characters';
  if (format !== undefined && format.split(place).length !== 2) {
    return `inject.format: must hold ${place} exactly once`;
  }
  switch (where) {
    case 'bearer':
      return unnamed(where, name) ?? headerValueProblem(secret, format);
    case 'basic':
      return unnamed(where, name) ?? basicProblem(secret, format);
    case 'header':
      if (name === undefined) return 'inject.name: the header must be named';
      if (neverCarriers.test(name)) return `inject.name: ${name} cannot carry a credential`;
      return headerValueProblem(secret, format);
    case 'query':
      return name === undefined ? 'inject.name: the parameter must be named' : undefined;
  }
}

function unnamed(where: string, name: string | undefined): string | undefined {
  return name === undefined
    ? undefined
    : `inject.name: ${where} goes into Authorization; leave name out`;
}

function headerValueProblem(secret: string, format = place): string | undefined {
  const isPrintable = /^[\x20-\x7e]+$/.test(format.replace(place, () => secret));
  const isTrimmed = secret.trim() === secret;
  return isPrintable && isTrimmed
    ? undefined
    : 'secret: must be printable ASCII without space around it to go into a header';
}

/**
 * Returns the problem of a `basic` credential, if any. RFC 7617: the user name ends at the first
 * colon.
 */
function basicProblem(secret: string, format: string | undefined): string | undefined {
  if (format !== undefined && format.indexOf(':') > format.indexOf(place)) {
    return `inject.format: the user name and a colon go before ${place}`;
  }
  return format?.includes(':') === false
    ? `inject.format: must be user:${place}`
    : secret.length > 4_096
      ? 'secret: is too long for basic'
      : undefined;
}
