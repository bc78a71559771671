import { addressRules } from '../../shared/base/address.ts';
import { isAddress } from '../../shared/base/host.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';

/**
 * The URL of a receiver: https, or http to a literal private address that the operator allows.
 * Where a name leads is judged when it is dialled; what is plainly refused is refused here.
 */
export function webhookUrl(text: string, allowPrivate: readonly string[]): string {
  const url = URL.parse(text);
  if (url === null || (url.protocol !== 'https:' && url.protocol !== 'http:')) {
    refuse('must be an https URL');
  }
  if (url.username !== '' || url.password !== '') refuse('must not hold a user or password');
  if (url.hash !== '') refuse('must not hold a fragment');
  const host = url.hostname.replace(/^\[|\]$/g, '');
  if (!/^[a-z0-9.:_-]+$/.test(host)) refuse('the host contains characters that no host name has');
  const kind = isAddress(host) ? addressRules(allowPrivate).refusal(host) : undefined;
  if (kind !== undefined) refuse(`${host} is a ${kind} address`);
  if (url.protocol === 'http:' && !isPrivate(host)) {
    refuse('must be https: what it is told must not be read on the way');
  }
  return url.href;
}

function isPrivate(host: string): boolean {
  return isAddress(host) && addressRules([]).refusal(host) !== undefined;
}

function refuse(what: string): never {
  throw new GatewayError('args.schema_invalid', { message: `url: ${what}.` });
}
