import { isJsonObject, type JsonObject, type JsonValue } from '../../shared/base/json.ts';
import { malformed, refuseLookalikes } from './message.ts';

/** A member that is forwarded without being judged. */
interface Unjudged {
  readonly because: string;
  /** Whether a value has the form that is forwarded unjudged; any other value is judged. */
  readonly fits: (value: JsonValue) => boolean;
}

const isText = (charsMax: number) => (value: JsonValue) =>
  typeof value === 'string' && value.length <= charsMax;
const matches = (form: RegExp) => (value: JsonValue) =>
  typeof value === 'string' && form.test(value);
const callId = matches(/^[\w.:-]{1,128}$/);

/**
 * The members of `_meta` that are forwarded unjudged, outside the action digest, because they
 * differ from call to call or repeat the handshake. All others are judged.
 */
export const unjudgedMeta: Readonly<Record<string, Unjudged>> = {
  progressToken: {
    because: 'names the progress notifications of this call; clients count it up',
    fits: (value) => typeof value === 'number' || isText(256)(value),
  },
  traceparent: {
    because: 'names the span of this call (W3C Trace Context)',
    fits: matches(/^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/),
  },
  tracestate: {
    because: 'places the call in the trace of each vendor (W3C Trace Context)',
    fits: matches(/^[\x20-\x7e]{0,512}$/),
  },
  'claudecode/toolUseId': { because: 'names this call in its client’s transcript', fits: callId },
  'vscode.requestId': { because: 'names the turn of a chat in its client', fits: callId },
  'io.modelcontextprotocol/protocolVersion': {
    because: 'is compared with the header; `initialize` says it in earlier revisions',
    fits: isText(64),
  },
  'io.modelcontextprotocol/clientInfo': {
    because: 'names the client’s program; `initialize` says it in earlier revisions',
    fits: isJsonObject,
  },
  'io.modelcontextprotocol/clientCapabilities': {
    because: 'limits what the server may ask back; `initialize` says it in earlier revisions',
    fits: isJsonObject,
  },
  'io.modelcontextprotocol/logLevel': {
    because: 'limits the log messages that come with the answer',
    fits: matches(/^(?:debug|info|notice|warning|error|critical|alert|emergency)$/),
  },
};

/**
 * Messages that are forwarded without a decision, with the members of `params` that each may have,
 * and the reason. A message with any other member is an action, judged on all members.
 */
export const passing: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  initialize: {
    protocolVersion: 'offers a revision',
    capabilities: 'limits what the server may ask back',
    clientInfo: 'names the client’s program',
  },
  'server/discover': {},
  ping: {},
  'tools/list': { cursor: 'names a page of the list' },
  'resources/list': { cursor: 'names a page of the list' },
  'resources/templates/list': { cursor: 'names a page of the list' },
  'prompts/list': { cursor: 'names a page of the list' },
  'subscriptions/listen': { notifications: 'chooses notifications; resources are not among them' },
  'notifications/initialized': {},
  'notifications/roots/list_changed': {},
  'notifications/cancelled': {
    requestId: 'ends a request of the client itself',
    reason: 'is for the log of the server',
  },
  'notifications/progress': {
    progressToken: 'names a request of the server',
    progress: 'counts work that the client does for the server',
    total: 'counts work that the client does for the server',
    message: 'describes work that the client does for the server',
  },
  'notifications/tasks/status': {
    taskId: 'names a task that the client runs for the server',
    status: 'reports the state of that task; its result is judged as a response',
    statusMessage: 'describes the state of that task',
    ttl: 'reports how long that task is kept',
    pollInterval: 'reports how often to ask',
    createdAt: 'reports a time',
    lastUpdatedAt: 'reports a time',
  },
};

/**
 * Results of the client that are forwarded without a decision. Each entry lists all members that
 * such a result may have, and the reason.
 */
export const passingResults: readonly Readonly<Record<string, string>>[] = [
  { roots: 'names the folders that the client shares, as a part of the handshake' },
  { task: 'names a task that the client runs; its result is judged' },
  { tasks: 'lists such tasks', nextCursor: 'names a page of the list' },
  {
    taskId: 'names a task that the client runs; its result is judged',
    status: 'reports the state of that task',
    statusMessage: 'describes the state of that task',
    ttl: 'reports how long that task is kept',
    pollInterval: 'reports how often to ask',
    createdAt: 'reports a time',
    lastUpdatedAt: 'reports a time',
  },
];

/** The members of a request other than its arguments, and their names in policies. */
const parts = {
  _meta: { name: 'meta', is: isJsonObject, form: 'an object' },
  task: { name: 'task', is: isJsonObject, form: 'an object' },
  inputResponses: { name: 'input_responses', is: isJsonObject, form: 'an object' },
  requestState: { name: 'request_state', is: isText(Infinity), form: 'text' },
} as const;

interface Parts {
  /** The judged members as policies see them, below `mcp`; undefined if there are none. */
  readonly judged: JsonObject | undefined;
  /** The members named in `parts`, as they are forwarded. */
  readonly wire: JsonObject;
  /** All other members of `params`. */
  readonly others: JsonObject;
}

/** Separates the members named in `parts` from the other members of a request. */
export function readParts(params: JsonObject): Parts {
  refuseLookalikes(params, Object.keys(parts));
  const judged: Record<string, JsonValue> = {};
  const wire: Record<string, JsonValue> = {};
  const others = { ...params } as Record<string, JsonValue>;
  for (const [member, { name, is, form }] of Object.entries(parts)) {
    const value = params[member];
    if (value === undefined) continue;
    if (!is(value)) throw malformed(`params.${member} must be ${form}`);
    delete others[member];
    wire[member] = value;
    const judgedValue = member === '_meta' ? judgedMeta(value as JsonObject) : value;
    if (judgedValue !== undefined) judged[name] = judgedValue;
  }
  return { judged: Object.keys(judged).length === 0 ? undefined : judged, wire, others };
}

function isUnjudged([name, value]: readonly [string, JsonValue | undefined]): boolean {
  const known = Object.hasOwn(unjudgedMeta, name) ? unjudgedMeta[name] : undefined;
  return value !== undefined && known?.fits(value) === true;
}

function judgedMeta(meta: JsonObject): JsonObject | undefined {
  const judged = Object.entries(meta).filter((entry) => !isUnjudged(entry));
  return judged.length === 0 ? undefined : Object.fromEntries(judged);
}

/**
 * The `params` of a message that is forwarded without a decision; undefined if the message must be
 * judged. Members of `_meta` that would need a decision are dropped.
 */
export function passingParams(
  method: string,
  params: JsonObject | undefined,
): { readonly params: JsonObject | undefined } | undefined {
  const known = Object.hasOwn(passing, method) ? passing[method] : undefined;
  if (known === undefined) return undefined;
  if (params === undefined) return { params };
  const { _meta: meta, ...others } = params;
  if (!Object.keys(others).every((member) => Object.hasOwn(known, member))) return undefined;
  if (method === 'subscriptions/listen' && !followsNothing(params)) return undefined;
  return { params: { ...others, ...passingMeta(meta) } };
}

/**
 * The result of a client that is forwarded without a decision; undefined if the result must be
 * judged.
 */
export function passingResult(result: JsonObject): JsonObject | undefined {
  const { _meta: meta, ...others } = result;
  const names = Object.keys(others);
  const isKnown = passingResults.some((known) => names.every((name) => Object.hasOwn(known, name)));
  const declines =
    names.length === 1 && (others.action === 'decline' || others.action === 'cancel');
  return isKnown || declines ? { ...others, ...passingMeta(meta) } : undefined;
}

function passingMeta(meta: JsonValue | undefined): JsonObject {
  if (meta === undefined) return {};
  if (!isJsonObject(meta)) throw malformed('_meta must be an object');
  const kept = Object.entries(meta).filter(isUnjudged);
  return kept.length === 0 ? {} : { _meta: Object.fromEntries(kept) };
}

/**
 * True for a `subscriptions/listen` that subscribes to no resources. Such a request only opens the
 * notification stream of later revisions, so it is forwarded without a decision, like the GET of
 * earlier revisions. A subscription to resources is judged, like `resources/subscribe`.
 */
function followsNothing({ notifications: filter }: JsonObject): boolean {
  if (filter === undefined) return true;
  if (!isJsonObject(filter)) return false;
  const { resourceSubscriptions: uris, ...others } = filter;
  const isEmpty = uris === undefined || (Array.isArray(uris) && uris.length === 0);
  return isEmpty && Object.values(others).every((wanted) => typeof wanted === 'boolean');
}
