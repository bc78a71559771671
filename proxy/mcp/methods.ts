import { isJsonObject, type JsonObject } from '../../shared/base/json.ts';
import type { Binding } from '../../shared/binding/binding.ts';
import { fillResource } from '../../shared/binding/resource.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import { malformed } from './message.ts';

// One to 128 characters, without empty segments and wildcards, so that a tool's name corresponds to
// exactly one tool id.
const toolNameForm = /^(?=.{1,128}$)[A-Za-z0-9_-]+(?:[./][A-Za-z0-9_-]+)*$/;

/** True if a tool with this name can be called at all. */
export function isToolName(name: string): boolean {
  return toolNameForm.test(name);
}

/** The tool and the arguments of a `tools/call`. */
interface ToolCall {
  readonly name: string;
  readonly args: JsonObject;
}

/** Reads the members that the protocol defines for `tools/call`; others are dropped. */
export function readToolCall({ name, arguments: args = {} }: JsonObject): ToolCall {
  if (typeof name !== 'string' || !isToolName(name)) {
    throw malformed('params.name must be a tool name of letters, digits, "_", "-", "." and "/"');
  }
  if (!isJsonObject(args)) throw malformed('params.arguments must be an object');
  return { name, args };
}

/** The resource of a tool call: the binding's template, filled with arguments, or `tool:<name>`. */
export function toolResource(binding: Binding, name: string, args: JsonObject): string {
  const filled = binding.resource === undefined ? undefined : fillResource(binding.resource, args);
  return filled ?? `tool:${name}`;
}

/** The resource of any other method: its URI or prompt name, otherwise the method. */
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

/** Refuses dot segments, with which a URI could escape a glob over resources. */
function refuseUnclearUri(uri: string): void {
  const segments = uri.replaceAll(/%2e/gi, '.').split(/[/\\?#]|%2f|%5c/i);
  if (!segments.includes('.') && !segments.includes('..')) return;
  throw new GatewayError('proxy.path_refused', {
    message: 'The URI has a dot segment; write it without.',
  });
}
