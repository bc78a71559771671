import type { JsonObject } from '../../shared/base/json.ts';
import type { Binding } from '../../shared/binding/binding.ts';
import { splitTarget } from '../../shared/binding/path.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { Outgoing } from '../../shared/upstream/outgoing.ts';
import type { Exchange } from '../call/exchange.ts';
import type { RecognisedAction, RecognisedPass } from '../call/recognition.ts';
import { forwardedHeaders, readHints, refuseOverrides } from './agent-headers.ts';
import { canonicalPath, opaqueQuery } from './opaque-path.ts';
import { announcesBody } from './read-body.ts';

/**
 * Recognises a call to a host without bindings. The tool is `http.<method>.<host>`, the resource is
 * the path. The body is opaque and streamed. The scheme, the query and a port other than the
 * scheme's own are arguments, so that policies see them and an approval covers only these values.
 */
export function recogniseOpaque(exchange: Exchange): RecognisedAction {
  refuseOverrides(exchange.req);
  if (exchange.method === 'TRACE' || exchange.method === 'CONNECT') {
    throw new GatewayError('proxy.method_refused');
  }
  const target = splitTarget(exchange.target);
  const resource = canonicalPath(target.path);
  const query = opaqueQuery(target.query);
  const isOwnPort = exchange.port === (exchange.scheme === 'https' ? 443 : 80);
  const args: JsonObject = {
    scheme: exchange.scheme,
    ...(query === '' ? {} : { query }),
    ...(isOwnPort ? {} : { port: exchange.port }),
  };
  const headers = forwardedHeaders(exchange.req);
  return {
    kind: 'action',
    tool: `http.${exchange.method.toLowerCase()}.${exchange.host}`,
    resource,
    resourceOf: () => resource,
    args,
    form: { kind: 'http' },
    hints: readHints(exchange.req),
    build: (judged) => {
      if (judged.scheme !== args.scheme || judged.port !== args.port) {
        throw new GatewayError('args.schema_invalid', {
          message: 'The arguments scheme and port say where the call goes; they cannot be changed.',
        });
      }
      return outgoing(exchange, withQuery(resource, judged), headers);
    },
  };
}

/**
 * Adds the query to a path. Only the query can change, because the agent's connection determines
 * scheme, host and port.
 */
function withQuery(path: string, { query = '' }: JsonObject): string {
  if (typeof query !== 'string') throw new GatewayError('args.schema_invalid');
  return query === '' ? path : `${path}?${opaqueQuery(query)}`;
}

/**
 * Recognises a request to a passthrough host, which is streamed and recorded, but not judged by its
 * arguments.
 */
export function recognisePassthrough(exchange: Exchange, binding: Binding): RecognisedPass {
  if (!exchange.target.startsWith('/')) throw new GatewayError('proxy.path_refused');
  return {
    kind: 'pass',
    binding,
    what: 'passthrough',
    form: { kind: 'http' },
    outgoing: outgoing(exchange, exchange.target, forwardedHeaders(exchange.req)),
  };
}

function outgoing(exchange: Exchange, path: string, headers: readonly string[]): Outgoing {
  const { scheme, host, port, method, req } = exchange;
  return { scheme, host, port, method, path, headers, body: announcesBody(req) ? req : null };
}
