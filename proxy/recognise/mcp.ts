import { isJsonObject, type JsonObject } from '../../shared/base/json.ts';
import { refuseDuplicateNames } from '../../shared/binding/args.ts';
import type { Binding } from '../../shared/binding/binding.ts';
import { allowedHeaders } from '../../shared/binding/headers.ts';
import { mcpPathByDefault } from '../../shared/binding/match.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { Outgoing } from '../../shared/upstream/outgoing.ts';
import type { Exchange } from '../call/exchange.ts';
import {
  type RecogniseDeps,
  type RecognisedAction,
  type RecognisedPass,
  type Recognition,
  type RefusalForm,
  refusalOf,
} from '../call/recognition.ts';
import {
  type Agreement,
  agree,
  type McpHeaders,
  readMcpHeaders,
  sessionHeaders,
  writeMcpHeaders,
} from '../mcp/headers.ts';
import { passingParams, passingResult, readParts } from '../mcp/members.ts';
import {
  type McpMessage,
  malformed,
  parseMessage,
  progressTokenOf,
  refuseLookalikes,
  salvageId,
  writeMessage,
} from '../mcp/message.ts';
import { methodResource, readToolCall, toolResource } from '../mcp/methods.ts';
import { judgedHeaders, readHints } from './agent-headers.ts';
import {
  readBody,
  requireMediaType,
  requireNoBody,
  type UnreadCall,
  whenRead,
} from './read-body.ts';

type McpRequest = Extract<McpMessage, { kind: 'request' }>;
type McpNotification = Extract<McpMessage, { kind: 'notification' }>;
type McpResponse = Extract<McpMessage, { kind: 'response' }>;
type McpForm = Extract<RefusalForm, { kind: 'mcp' }>;

/** One message to an MCP server, with the data that is needed to forward it. */
interface McpCall<Message extends McpMessage> {
  readonly exchange: Exchange;
  readonly binding: Binding;
  readonly headers: McpHeaders;
  readonly agreement: Agreement;
  readonly message: Message;
}

/** Recognises a request to an MCP endpoint over Streamable HTTP, of any revision. */
export function recogniseMcp(
  exchange: Exchange,
  binding: Binding,
  deps: RecogniseDeps,
): Recognition | UnreadCall {
  if (exchange.method !== 'POST') return recogniseStream(exchange, binding);
  const form = { kind: 'mcp', id: null, method: '' } as const;
  try {
    requireMediaType(exchange.req, 'application/json');
    const charge = deps.buffers?.open(exchange.res);
    const body = readBody(exchange.req, deps.limits.bodyBytesMax, charge);
    return whenRead(body, form, (bytes) => recognisePost({ exchange, binding, bytes }, deps));
  } catch (error) {
    return refusalOf(error, form);
  }
}

interface PostedMessage {
  readonly exchange: Exchange;
  readonly binding: Binding;
  readonly bytes: Buffer;
}

function recognisePost(
  { exchange, binding, bytes }: PostedMessage,
  deps: RecogniseDeps,
): Recognition {
  try {
    const message = parseMessage(bytes, deps.limits);
    const headers = readMcpHeaders(exchange.req.rawHeaders);
    const agreement = agree(headers, message);
    return recogniseMessage({ exchange, binding, headers, agreement, message }, deps);
  } catch (error) {
    return refusalOf(error, { kind: 'mcp', id: salvageId(bytes), method: '' });
  }
}

/**
 * Recognises GET, which opens the server's stream, and DELETE, which ends the session, in revisions
 * with sessions.
 */
function recogniseStream(exchange: Exchange, binding: Binding): Recognition | UnreadCall {
  const { method, req } = exchange;
  if (method !== 'GET' && method !== 'DELETE') {
    throw new GatewayError('proxy.method_refused', {
      message: 'An MCP endpoint answers POST, GET and DELETE.',
    });
  }
  const form = { kind: 'http' } as const;
  return whenRead(requireNoBody(req), form, () => {
    const ofSession = sessionHeaders(readMcpHeaders(req.rawHeaders));
    if (ofSession.length === 0) throw namesNoSession();
    const headers = [...allowedHeaders(req.rawHeaders, binding.headers), ...ofSession];
    return {
      kind: 'pass',
      binding,
      what: method === 'GET' ? 'mcp/stream' : 'mcp/session-end',
      form,
      outgoing: { ...destination(exchange, binding), method, headers, body: null },
    };
  });
}

/**
 * The error for a GET without MCP headers. Such a GET opens the HTTP+SSE transport, whose server
 * announces an endpoint for messages, and this endpoint has no binding. Clients of other transports
 * do not depend on this GET.
 */
function namesNoSession(): GatewayError {
  return new GatewayError('mcp.transport_unsupported', {
    message:
      'A GET must name its session or the protocol version: the HTTP+SSE transport of 2024-11-05 is not forwarded, use Streamable HTTP.',
  });
}

/** Lists that policy decides on for a binding with `list_actions`; `tools/list` is filtered instead. */
const listsOfData: ReadonlySet<string> = new Set([
  'resources/list',
  'resources/templates/list',
  'prompts/list',
]);

function recogniseMessage(call: McpCall<McpMessage>, deps: RecogniseDeps): Recognition {
  const { message } = call;
  if (message.kind === 'response') return recogniseResponse({ ...call, message });
  const isAction = call.binding.list_actions === true && listsOfData.has(message.method);
  const passes = isAction ? undefined : passingParams(message.method, message.params);
  if (passes !== undefined) return pass({ ...call, message: { ...message, ...passes } });
  if (message.method === 'tools/call' && message.kind === 'request') {
    return toolCall({ ...call, message }, deps);
  }
  return otherMethod({ ...call, message });
}

function pass(call: McpCall<McpMessage>): RecognisedPass {
  const { message, binding } = call;
  const what = message.kind === 'response' ? 'mcp/response' : `mcp/${message.method}`;
  return { kind: 'pass', binding, what, form: formOf(call), outgoing: send(call) };
}

function toolCall(call: McpCall<McpRequest>, deps: RecogniseDeps): RecognisedAction {
  const { binding, message } = call;
  refuseLookalikes(message.params ?? {}, ['name', 'arguments']);
  const { judged: mcp, wire, others } = readParts(message.params ?? {});
  const { name, args } = readToolCall(others);
  refuseDuplicateNames(args);
  const tool = `mcp.${binding.name}.${name}`;
  return action(call, {
    tool,
    resourceOf: (judged) => toolResource(binding, name, judged),
    args,
    mcp,
    form: { ...formOf(call), tool, hasOutputSchema: deps.toolHasOutputSchema(tool) },
    rewrite: (judged) => ({ ...message, params: { name, arguments: judged, ...wire } }),
  });
}

/** Recognises any other request, and a notification that no table lists. */
function otherMethod(call: McpCall<McpRequest | McpNotification>): RecognisedAction {
  const { binding, message } = call;
  const { judged: mcp, wire, others: args } = readParts(message.params ?? {});
  refuseLookalikes(args, ['uri', 'name', 'taskId']);
  refuseDuplicateNames(args);
  return action(call, {
    tool: `mcp.${binding.name}/${message.method}`,
    resourceOf: (judged) => methodResource(message.method, judged),
    args,
    mcp,
    form: formOf(call),
    rewrite: (judged) => ({ ...message, params: { ...judged, ...wire } }),
  });
}

/**
 * Recognises a client's response to a question from the server. The response can determine what an
 * approved call does, as `inputResponses` does in later revisions, so it is judged as an action.
 */
function recogniseResponse(call: McpCall<McpResponse>): Recognition {
  const { binding, message } = call;
  const { outcome } = message;
  if ('error' in outcome) return pass({ ...call, message: declining(message, outcome.error) });
  if (!isJsonObject(outcome.result)) throw malformed('result must be an object');
  const passes = passingResult(outcome.result);
  if (passes !== undefined) {
    return pass({ ...call, message: { ...message, outcome: { result: passes } } });
  }
  const { judged: mcp, wire, others: args } = readParts(outcome.result);
  refuseDuplicateNames(args);
  return {
    ...action(call, {
      tool: `mcp.${binding.name}/response`,
      resourceOf: () => methodResource('response', {}),
      args,
      mcp,
      form: formOf(call),
      rewrite: (judged) => ({ ...message, outcome: { result: { ...judged, ...wire } } }),
    }),
    insteadOf: (error) => send({ ...call, message: declining(message, error) }),
  };
}

function declining(message: McpResponse, { code, message: text }: JsonObject): McpResponse {
  if (!Number.isSafeInteger(code) || typeof text !== 'string') {
    throw malformed('error must have a code and a message');
  }
  return { ...message, outcome: { error: { code, message: text } } };
}

function formOf({ message, agreement }: McpCall<McpMessage>): McpForm {
  return {
    kind: 'mcp',
    id: message.kind === 'request' ? message.id : null,
    method: message.kind === 'response' ? '' : message.method,
    isStateless: agreement.isStateless,
  };
}

interface ActionParts
  extends Pick<RecognisedAction, 'tool' | 'resourceOf' | 'args' | 'mcp' | 'form'> {
  readonly rewrite: (judged: JsonObject) => McpMessage;
}

function action(
  call: McpCall<McpMessage>,
  { rewrite, mcp, ...parts }: ActionParts,
): RecognisedAction {
  const { binding, exchange, message } = call;
  const params = message.kind === 'response' ? undefined : message.params;
  const build = (judged: JsonObject) => send({ ...call, message: rewrite(judged) });
  // Built before the judgement, so that a message that cannot be built is refused without a
  // judgement.
  const asJudged = build(parts.args);
  const headers = judgedHeaders(exchange.req.rawHeaders, binding.headers);
  return {
    kind: 'action',
    binding,
    ...parts,
    mcp: headers === undefined ? mcp : { ...mcp, headers },
    resource: parts.resourceOf(parts.args),
    hints: { ...readHints(exchange.req), progressToken: progressTokenOf(params) },
    build: (judged) => (judged === parts.args ? asJudged : build(judged)),
  };
}

/** Writes the message again, with headers that agree with it. */
function send({ exchange, binding, headers, message, agreement }: McpCall<McpMessage>): Outgoing {
  return {
    ...destination(exchange, binding),
    method: 'POST',
    headers: [
      ...allowedHeaders(exchange.req.rawHeaders, binding.headers),
      'content-type',
      'application/json',
      ...writeMcpHeaders(headers, message, agreement),
    ],
    body: writeMessage(message),
  };
}

/** The endpoint as the binding spells it. */
function destination(
  { scheme, host, port }: Exchange,
  binding: Binding,
): Pick<Outgoing, 'scheme' | 'host' | 'port' | 'path'> {
  return { scheme, host, port, path: binding.path ?? mcpPathByDefault };
}
