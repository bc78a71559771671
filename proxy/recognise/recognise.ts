import { argumentLimits } from '../../shared/base/strict-json.ts';
import { splitPath, splitTarget } from '../../shared/binding/path.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { Exchange } from '../ingress/exchange.ts';
import { recogniseCall } from './http.ts';
import { recogniseMcp } from './mcp.ts';
import { recogniseOpaque, recognisePassthrough } from './opaque.ts';
import type { RecogniseDeps, RecogniseLimits, Recognition } from './recognition.ts';
import { refusalOf } from './refusal.ts';
import { requireWebSocket } from './websocket.ts';

export const limitsByDefault: RecogniseLimits = {
  bodyBytesMax: 1_048_576,
  depthMax: 64,
  size: argumentLimits,
};

/**
 * Says what a request means: an action to be judged, something that passes, or a refusal. Never
 * rejects; whatever cannot be understood in exactly one way is a refusal.
 */
export async function recognise(exchange: Exchange, deps: RecogniseDeps): Promise<Recognition> {
  try {
    if (exchange.upgrade !== undefined) requireWebSocket(exchange.req);
    const recognition = await recogniseRequest(exchange, deps);
    const mayUpgrade = recognition.kind === 'action' && recognition.binding?.upgrade === true;
    if (exchange.upgrade !== undefined && !mayUpgrade)
      throw new GatewayError('proxy.upgrade_refused');
    return recognition;
  } catch (error) {
    return refusalOf(error, { kind: 'http' });
  }
}

function recogniseRequest(
  exchange: Exchange,
  deps: RecogniseDeps,
): Recognition | Promise<Recognition> {
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
