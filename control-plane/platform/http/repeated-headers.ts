import type { IncomingMessage } from 'node:http';
import { GatewayError } from '../../../shared/errors/gateway-error.ts';

/**
 * Headers that decide who calls and how the body is read. Parsers disagree on which of two counts
 * (RFC 9110, section 5.3): a proxy may check one, and Node reads the other.
 */
const once: ReadonlySet<string> = new Set([
  'authorization',
  'content-encoding',
  'content-length',
  'content-type',
  'host',
  'idempotency-key',
  'transfer-encoding',
]);

/** Refuses a request that repeats such a header. */
export function refuseRepeatedHeaders({ rawHeaders }: Pick<IncomingMessage, 'rawHeaders'>): void {
  const seen = new Set<string>();
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = (rawHeaders[index] ?? '').toLowerCase();
    if (!once.has(name)) continue;
    if (seen.has(name)) {
      throw new GatewayError('request.header_repeated', {
        message: `The header ${name} is given more than once; send it once.`,
      });
    }
    seen.add(name);
  }
}
