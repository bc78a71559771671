import type { IncomingMessage } from 'node:http';
import { argumentLimits } from '../../shared/base/strict-json.ts';
import { splitPath, splitTarget } from '../../shared/binding/path.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { Exchange } from '../call/exchange.ts';
import {
  type RecogniseDeps,
  type RecogniseLimits,
  type Recognition,
  refusalOf,
} from '../call/recognition.ts';
import { singleHeader } from './agent-headers.ts';
import { recogniseCall } from './http.ts';
import { recogniseMcp } from './mcp.ts';
import { recogniseOpaque, recognisePassthrough } from './opaque.ts';
import { announcesBody, type UnreadCall } from './read-body.ts';

export const limitsByDefault: RecogniseLimits = {
  bodyBytesMax: 1_048_576,
  depthMax: 64,
  size: argumentLimits,
};

/**
 * Turns a request into an action to be judged, a message to be forwarded, or a refusal. Never
 * rejects or throws; an ambiguous request is refused. Returns a promise only if the body is still
 * arriving.
 */
export function recognise(
  exchange: Exchange,
  deps: RecogniseDeps,
): Recognition | Promise<Recognition> {
  try {
    if (exchange.upgrade !== undefined) requireWebSocket(exchange.req);
    const recognised = recogniseRequest(exchange, deps);
    return 'understand' in recognised
      ? recogniseRead(exchange, recognised)
      : admitUpgrade(exchange, recognised);
  } catch (error) {
    return refusalOf(error, { kind: 'http' });
  }
}

function recogniseRequest(exchange: Exchange, deps: RecogniseDeps): Recognition | UnreadCall {
  const bound = deps.index.forHost(exchange.host, exchange.port);
  if (bound === undefined) return recogniseOpaque(exchange);
  if (bound.passthrough !== undefined) return recognisePassthrough(exchange, bound.passthrough);
  const { path, query } = splitTarget(exchange.target);
  const segments = splitPath(path);
  const server = bound.mcpAt(segments, query);
  if (server !== undefined) return recogniseMcp(exchange, server, deps);
  const call = bound.callAt(exchange.method, segments);
  if (call !== undefined) return recogniseCall(exchange, call, deps);
  throw new GatewayError('proxy.unbound_call');
}

async function recogniseRead(
  exchange: Exchange,
  { body, form, understand }: UnreadCall,
): Promise<Recognition> {
  let refusalForm = form;
  try {
    const bytes = await body;
    refusalForm = { kind: 'http' };
    return admitUpgrade(exchange, understand(bytes));
  } catch (error) {
    return refusalOf(error, refusalForm);
  }
}

/** Refuses an upgrade unless the binding of the action allows it. */
function admitUpgrade(exchange: Exchange, recognition: Recognition): Recognition {
  if (exchange.upgrade === undefined) return recognition;
  if (recognition.kind === 'action' && recognition.binding?.upgrade === true) return recognition;
  throw new GatewayError('proxy.upgrade_refused');
}

// RFC 6455 section 4.1: sixteen bytes in base64. RFC 9110 section 5.6.2: characters of a token.
const keyForm = /^[+/0-9A-Za-z]{21}[AQgw]==$/;
const tokensForm = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+(?:[ \t]*,[ \t]*[!#$%&'*+.^_`|~0-9A-Za-z-]+)*$/;

/** Refuses every upgrade except a WebSocket opening handshake (RFC 6455 section 4.2.1). */
function requireWebSocket(req: IncomingMessage): void {
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
