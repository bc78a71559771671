import { ArgumentSet, refuseMethodOverride } from '../../shared/binding/args.ts';
import { bodyKind, buildRequest } from '../../shared/binding/build.ts';
import { parseForm } from '../../shared/binding/form.ts';
import type { BoundCall } from '../../shared/binding/match.ts';
import { splitTarget } from '../../shared/binding/path.ts';
import { requireResource } from '../../shared/binding/resource.ts';
import { GatewayError } from '../../shared/errors.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../shared/json.ts';
import { decodeUtf8, parseStrictJson } from '../../shared/strict-json.ts';
import type { Outgoing } from '../../shared/upstream/outgoing.ts';
import type { Exchange } from '../ingress/exchange.ts';
import { readHints, refuseOverrides } from './agent-headers.ts';
import { readBody, requireMediaType, requireNoBody } from './read-body.ts';
import type { RecognisedAction, RecogniseLimits } from './recognition.ts';

/**
 * A REST call that a binding covers. Its arguments come from path, query and body; each name may
 * be given once, in the place where the builder would put it.
 */
export async function recogniseCall(
  exchange: Exchange,
  call: BoundCall,
  limits: RecogniseLimits,
): Promise<RecognisedAction> {
  const { binding } = call;
  if (binding.tool === undefined) throw new GatewayError('proxy.unbound_call');
  refuseOverrides(exchange.req);
  const args = await collectArguments(exchange, call, limits);
  const build = (judged: JsonObject): Outgoing => ({
    scheme: exchange.scheme,
    host: exchange.host,
    port: exchange.port,
    ...buildRequest(binding, judged, { agentHeaders: exchange.req.rawHeaders }),
  });
  // Built at once: what cannot be written is refused before it is judged.
  const asJudged = build(args);
  const written = (judged: JsonObject) => (judged === args ? asJudged : build(judged));
  const resourceOf = (judged: JsonObject) =>
    binding.resource === undefined
      ? splitTarget(written(judged).path).path
      : requireResource(binding.resource, judged);
  return {
    kind: 'action',
    binding,
    tool: binding.tool,
    resource: resourceOf(args),
    resourceOf,
    args,
    form: { kind: 'http' },
    hints: readHints(exchange.req),
    build: written,
  };
}

async function collectArguments(
  exchange: Exchange,
  { binding, template, parameters }: BoundCall,
  limits: RecogniseLimits,
): Promise<JsonObject> {
  const query = parseForm(splitTarget(exchange.target).query);
  const kind = bodyKind(binding);
  const set = new ArgumentSet();
  for (const [name, value] of parameters) set.add(name, value);
  for (const [name, value] of query) set.add(name, value);
  if (kind === 'none') await requireNoBody(exchange.req);
  else {
    for (const [name, value] of await bodyArguments(exchange, kind, limits)) set.add(name, value);
    refuseMisplaced(
      query.map(([name]) => name),
      template.queryNames,
    );
  }
  refuseMethodOverride(Object.keys(set.args));
  return set.args;
}

/**
 * Where there is a body, only declared names may stand in the query: an argument that was judged
 * in one place and read by the upstream in another would not be judged at all.
 */
function refuseMisplaced(names: readonly string[], declared: readonly string[]): void {
  const misplaced = names.find((name) => !declared.includes(name));
  if (misplaced === undefined) return;
  throw new GatewayError('args.schema_invalid', {
    message: `The argument ${JSON.stringify(misplaced.slice(0, 100))} belongs into the body, unless the binding's path declares it: {?…}.`,
  });
}

async function bodyArguments(
  exchange: Exchange,
  kind: 'json' | 'form',
  limits: RecogniseLimits,
): Promise<readonly (readonly [string, JsonValue])[]> {
  const bytes = await readBody(exchange.req, limits.bodyBytesMax);
  if (bytes.length === 0) return [];
  if (kind === 'form') {
    requireMediaType(exchange.req, 'application/x-www-form-urlencoded');
    return parseForm(decodeUtf8(bytes));
  }
  requireMediaType(exchange.req, 'application/json');
  const value = parseStrictJson(bytes, limits);
  if (!isJsonObject(value)) {
    throw new GatewayError('args.schema_invalid', { message: 'The body must be a JSON object.' });
  }
  return Object.entries(value).filter(
    (entry): entry is [string, JsonValue] => entry[1] !== undefined,
  );
}
