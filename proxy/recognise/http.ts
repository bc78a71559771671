import { isJsonObject, type JsonObject, type JsonValue } from '../../shared/base/json.ts';
import { decodeUtf8, parseStrictJson } from '../../shared/base/strict-json.ts';
import { ArgumentSet } from '../../shared/binding/args.ts';
import type { Binding } from '../../shared/binding/binding.ts';
import { bodyKind, buildRequest } from '../../shared/binding/build.ts';
import { parseForm } from '../../shared/binding/form.ts';
import type { BoundCall } from '../../shared/binding/match.ts';
import { refuseMethodOverride } from '../../shared/binding/method-override.ts';
import { splitTarget } from '../../shared/binding/path.ts';
import { requireResource } from '../../shared/binding/resource.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { Outgoing } from '../../shared/upstream/outgoing.ts';
import type { Exchange } from '../call/exchange.ts';
import type {
  RecogniseDeps,
  RecognisedAction,
  RecogniseLimits,
  Recognition,
} from '../call/recognition.ts';
import { readHints, refuseOverrides } from './agent-headers.ts';
import {
  readBody,
  requireMediaType,
  requireNoBody,
  type UnreadCall,
  whenRead,
} from './read-body.ts';

/**
 * Recognises a REST call that a binding covers. Arguments come from path, query and body. Each
 * argument may occur only once, and only where the builder would write it.
 */
export function recogniseCall(
  exchange: Exchange,
  call: BoundCall,
  { limits, buffers }: Pick<RecogniseDeps, 'limits' | 'buffers'>,
): Recognition | UnreadCall {
  const { binding } = call;
  const { tool } = binding;
  if (tool === undefined) throw new GatewayError('proxy.unbound_call');
  refuseOverrides(exchange.req);
  const set = new ArgumentSet();
  addTarget(set, exchange, call);
  const form = { kind: 'http' } as const;
  if (bodyKind(binding) === 'none') {
    return whenRead(requireNoBody(exchange.req), form, () =>
      boundAction(exchange, { binding, tool, args: set.args }),
    );
  }
  const charge = buffers?.open(exchange.res);
  return whenRead(readBody(exchange.req, limits.bodyBytesMax, charge), form, (body) => {
    addBody(set, body, { exchange, call, limits });
    return boundAction(exchange, { binding, tool, args: set.args });
  });
}

interface BoundArguments {
  readonly binding: Binding;
  readonly tool: string;
  readonly args: JsonObject;
}

/** Builds the action of a call whose arguments are complete. */
function boundAction(
  exchange: Exchange,
  { binding, tool, args }: BoundArguments,
): RecognisedAction {
  refuseMethodOverride(Object.keys(args));
  const build = (judged: JsonObject): Outgoing => ({
    scheme: exchange.scheme,
    host: exchange.host,
    port: exchange.port,
    ...buildRequest(binding, judged, { agentHeaders: exchange.req.rawHeaders }),
  });
  // Built before the judgement, so that a request that cannot be built is refused without a
  // judgement.
  const asJudged = build(args);
  const written = (judged: JsonObject) => (judged === args ? asJudged : build(judged));
  const resourceOf = (judged: JsonObject) =>
    binding.resource === undefined
      ? splitTarget(written(judged).path).path
      : requireResource(binding.resource, judged);
  return {
    kind: 'action',
    binding,
    tool,
    resource: resourceOf(args),
    resourceOf,
    args,
    form: { kind: 'http' },
    hints: readHints(exchange.req),
    build: written,
  };
}

/** Adds the arguments in path and query. */
function addTarget(
  set: ArgumentSet,
  { target }: Exchange,
  { parameters }: Pick<BoundCall, 'parameters'>,
): void {
  for (const [name, value] of parameters) set.add(name, value);
  for (const [name, value] of parseForm(splitTarget(target).query)) set.add(name, value);
}

interface BoundBody {
  readonly exchange: Exchange;
  readonly call: BoundCall;
  readonly limits: RecogniseLimits;
}

function addBody(set: ArgumentSet, bytes: Buffer, { exchange, call, limits }: BoundBody): void {
  if (bytes.length > 0 && bodyKind(call.binding) === 'form') {
    requireMediaType(exchange.req, 'application/x-www-form-urlencoded');
    for (const [name, value] of parseForm(decodeUtf8(bytes))) set.add(name, value);
  } else if (bytes.length > 0) {
    requireMediaType(exchange.req, 'application/json');
    addMembers(set, parseStrictJson(bytes, limits));
  }
  refuseMisplaced(exchange, call.template.queryNames);
}

function addMembers(set: ArgumentSet, value: JsonValue): void {
  if (!isJsonObject(value)) {
    throw new GatewayError('args.schema_invalid', { message: 'The body must be a JSON object.' });
  }
  for (const name of Object.keys(value)) {
    const member = value[name];
    if (member !== undefined) set.add(name, member);
  }
}

/**
 * Refuses undeclared names in the query of a call with a body. Otherwise, the decision would be
 * based on an argument in the body, and the upstream could read the argument from the query.
 */
function refuseMisplaced({ target }: Exchange, declared: readonly string[]): void {
  const { query } = splitTarget(target);
  const misplaced = parseForm(query).find(([name]) => !declared.includes(name))?.[0];
  if (misplaced === undefined) return;
  throw new GatewayError('args.schema_invalid', {
    message: `The argument ${JSON.stringify(misplaced.slice(0, 100))} belongs into the body, unless the binding's path declares it: {?…}.`,
  });
}
