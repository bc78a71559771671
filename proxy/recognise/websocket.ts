import type { IncomingMessage } from 'node:http';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { singleHeader } from './agent-headers.ts';
import { announcesBody } from './read-body.ts';

// RFC 6455 section 4.1: sixteen bytes in base64; RFC 9110 section 5.6.2: what a token is made of.
const keyForm = /^[+/0-9A-Za-z]{21}[AQgw]==$/;
const tokensForm = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+(?:[ \t]*,[ \t]*[!#$%&'*+.^_`|~0-9A-Za-z-]+)*$/;

/** Refuses every upgrade but the opening of a WebSocket as RFC 6455 section 4.2.1 wants it. */
export function requireWebSocket(req: IncomingMessage): void {
  const header = (name: string) => singleHeader(req, name);
  const connection = (header('connection') ?? '').toLowerCase().split(',');
  const protocols = header('sec-websocket-protocol');
  const isOpening =
    req.method === 'GET' &&
    req.httpVersion === '1.1' &&
    header('upgrade')?.toLowerCase() === 'websocket' &&
    connection.some((token) => token.trim() === 'upgrade') &&
    header('sec-websocket-version') === '13' &&
    keyForm.test(header('sec-websocket-key') ?? '') &&
    (protocols === undefined || tokensForm.test(protocols)) &&
    !announcesBody(req);
  if (isOpening) return;
  throw new GatewayError('proxy.upgrade_refused', {
    message: 'Only the opening handshake of a WebSocket (RFC 6455, version 13) can be an upgrade.',
  });
}
