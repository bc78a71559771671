import type { Binding } from '../../shared/binding/binding.ts';
import { fillResource } from '../../shared/binding/resource.ts';
import { GatewayError } from '../../shared/errors.ts';
import { isJsonObject, type JsonObject } from '../../shared/json.ts';
import { malformed } from './mcp-message.ts';

/** Handshake, ping and lists: requests that pass without a decision on their arguments. */
const passing: ReadonlySet<string> = new Set([
  'initialize',
  'server/discover',
  'ping',
  'tools/list',
  'resources/list',
  'resources/templates/list',
  'prompts/list',
]);

/**
 * `subscriptions/listen` is the later revisions' stream of notifications and passes like the
 * earlier ones' GET, as long as it follows no resource: that would be `resources/subscribe`.
 */
export function passes(method: string, params: JsonObject | undefined): boolean {
  if (method !== 'subscriptions/listen') return passing.has(method);
  const filter = params?.notifications;
  if (filter === undefined) return true;
  if (!isJsonObject(filter)) return false;
  const { resourceSubscriptions: uris, ...others } = filter;
  const followsNothing = uris === undefined || (Array.isArray(uris) && uris.length === 0);
  return followsNothing && Object.values(others).every((wanted) => typeof wanted === 'boolean');
}

// One to 128 characters; segments between dots and slashes are never empty, and no wildcard fits,
// so that a tool's name spells one tool id only.
const toolNameForm = /^(?=.{1,128}$)[A-Za-z0-9_-]+(?:[./][A-Za-z0-9_-]+)*$/;

/** Whether a tool of this name can be called at all. */
export function isToolName(name: string): boolean {
  return toolNameForm.test(name);
}

/** What a `tools/call` asks for. */
interface ToolCall {
  readonly name: string;
  readonly args: JsonObject;
  /** Members of `params` that go on beside name and arguments. */
  readonly rest: JsonObject;
}

/** Members that revisions up to 2026-07-28 define for `tools/call`, beside name and arguments. */
const furtherMembers = ['_meta', 'task', 'inputResponses', 'requestState'];

export function readToolCall(params: JsonObject = {}): ToolCall {
  const { name, arguments: args = {} } = params;
  if (typeof name !== 'string' || !isToolName(name)) {
    throw malformed('params.name must be a tool name of letters, digits, "_", "-", "." and "/"');
  }
  if (!isJsonObject(args)) throw malformed('params.arguments must be an object');
  const rest = Object.fromEntries(
    furtherMembers
      .filter((member) => Object.hasOwn(params, member))
      .map((member) => [member, params[member]]),
  );
  return { name, args, rest };
}

/** The resource of a tool call: by the binding's template where its arguments are there. */
export function toolResource(binding: Binding, name: string, args: JsonObject): string {
  const filled = binding.resource === undefined ? undefined : fillResource(binding.resource, args);
  return filled ?? `tool:${name}`;
}

/** The resource of any other method: the URI or name that it is about, else the method. */
export function methodResource(method: string, params: JsonObject): string {
  const { uri, name } = params;
  if (typeof uri === 'string' && uri !== '') {
    refuseUnclearUri(uri);
    return uri;
  }
  return method === 'prompts/get' && typeof name === 'string' && name !== ''
    ? `prompt:${name}`
    : `method:${method}`;
}

/** Globs over resources must not be walked out of by dot segments. */
function refuseUnclearUri(uri: string): void {
  const segments = uri.replaceAll(/%2e/gi, '.').split(/[/\\?#]|%2f|%5c/i);
  if (!segments.includes('.') && !segments.includes('..')) return;
  throw new GatewayError('proxy.path_refused', {
    message: 'The URI has a dot segment; write it without.',
  });
}
