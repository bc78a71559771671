import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { inboundHeaders } from '../../shared/upstream/headers.ts';

// RFC 6455 section 1.3.
const acceptSuffix = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';

/**
 * The reason why a 101 response does not open the requested WebSocket; undefined if it opens the
 * WebSocket.
 */
export function handshakeFault(
  asked: IncomingMessage,
  answer: IncomingMessage,
): string | undefined {
  const expected = createHash('sha1')
    .update(`${asked.headers['sec-websocket-key']}${acceptSuffix}`)
    .digest('base64');
  const { headers } = answer;
  if (headers.upgrade?.toLowerCase() !== 'websocket') return 'It changed to another protocol.';
  if (headers['sec-websocket-accept'] !== expected) return 'It did not answer this handshake.';
  const protocol = headers['sec-websocket-protocol'];
  if (protocol !== undefined && !offers(asked, 'sec-websocket-protocol').includes(protocol)) {
    return 'It chose a subprotocol that was not offered.';
  }
  const offered = offers(asked, 'sec-websocket-extensions').map(extensionName);
  const chosen = offers(answer, 'sec-websocket-extensions').map(extensionName);
  if (!chosen.every((name) => offered.includes(name))) {
    return 'It chose an extension that was not offered.';
  }
  return undefined;
}

function offers({ headers }: IncomingMessage, name: string): string[] {
  const value = headers[name];
  return value === undefined
    ? []
    : String(value)
        .split(',')
        .map((part) => part.trim());
}

function extensionName(offer: string): string {
  return (offer.split(';')[0] ?? '').trim().toLowerCase();
}

/** The headers of the 101 response as the agent may see them. */
export function openingHeaders(
  answer: IncomingMessage,
  more: Readonly<Record<string, string>>,
): IncomingMessage['headers'] {
  const raw = inboundHeaders(answer.rawHeaders, false);
  const headers: Record<string, string | string[]> = {};
  for (let index = 0; index + 1 < raw.length; index += 2) {
    const name = raw[index] ?? '';
    const held = headers[name];
    const value = raw[index + 1] ?? '';
    headers[name] = held === undefined ? value : [held, value].flat();
  }
  return { ...headers, ...more, connection: 'Upgrade', upgrade: 'websocket' };
}
