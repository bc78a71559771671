import { isJsonObject, type JsonObject, type JsonValue } from '../../shared/base/json.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { McpMessage } from './message.ts';

/** The first revision without sessions, in which headers repeat members of the body. */
const statelessSince = '2026-07-28';
const dateForm = /^\d{4}-\d{2}-\d{2}$/;
// The server decides which versions are valid; this pattern only excludes ambiguous spellings.
const versionForm = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
const versionMember = 'io.modelcontextprotocol/protocolVersion';

/** The member of `params` that the `Mcp-Name` header repeats, by method. */
const nameSources: Readonly<Record<string, string>> = {
  'tools/call': 'name',
  'prompts/get': 'name',
  'resources/read': 'uri',
  'tasks/get': 'taskId',
  'tasks/update': 'taskId',
  'tasks/cancel': 'taskId',
};
const nameRequired: readonly string[] = ['tools/call', 'prompts/get', 'resources/read'];

/** The MCP headers of one request by lower-case name; each occurs at most once. */
export type McpHeaders = ReadonlyMap<string, string>;

export function readMcpHeaders(raw: readonly string[]): McpHeaders {
  const found = new Map<string, string>();
  for (let index = 0; index + 1 < raw.length; index += 2) {
    const name = (raw[index] ?? '').toLowerCase();
    if (!name.startsWith('mcp-') && name !== 'last-event-id') continue;
    if (found.has(name)) throw mismatch(`${name} is given more than once`);
    found.set(name, raw[index + 1] ?? '');
  }
  const version = found.get('mcp-protocol-version');
  if (version !== undefined && !versionForm.test(version)) {
    throw mismatch('MCP-Protocol-Version is not the name of a revision');
  }
  return found;
}

/** The `Mcp-Param-*` headers of a `tools/call`, decoded. */
type ParamHeaders = readonly { readonly name: string; readonly text: string }[];

/** The facts on which headers and body agree. */
export interface Agreement {
  readonly isStateless: boolean;
  readonly params: ParamHeaders;
}

/**
 * Compares the headers with the body (2026-07-28, "Server Validation"). Headers and body must agree
 * in every revision, because the upstream or an intermediary may act on either.
 */
export function agree(headers: McpHeaders, message: McpMessage): Agreement {
  const isStateless = agreeOnVersion(headers, message);
  const method = message.kind === 'response' ? undefined : message.method;
  const methodHeader = headers.get('mcp-method');
  if (methodHeader !== undefined ? methodHeader !== method : isStateless && method !== undefined) {
    throw mismatch('Mcp-Method does not name the method of the body');
  }
  agreeOnName(headers, message, isStateless);
  return { isStateless, params: readParams(headers, message) };
}

function agreeOnVersion(headers: McpHeaders, message: McpMessage): boolean {
  const inHeader = headers.get('mcp-protocol-version');
  const inBody = message.kind === 'response' ? undefined : bodyVersion(message.params);
  if (inBody !== undefined && inBody !== inHeader) {
    throw mismatch('MCP-Protocol-Version is not the version in the body');
  }
  const isStateless = inHeader !== undefined && isStatelessVersion(inHeader);
  if (isStateless && inBody === undefined && message.kind === 'request') {
    throw new GatewayError('mcp.meta_missing', {
      message: `params._meta lacks ${versionMember}, which is required since ${statelessSince}.`,
    });
  }
  return isStateless;
}

/**
 * True for a revision without sessions. Unknown versions count as such, because the rules for these
 * revisions are stricter.
 */
function isStatelessVersion(version: string): boolean {
  return !dateForm.test(version) || version >= statelessSince;
}

function bodyVersion(params: JsonObject | undefined): JsonValue | undefined {
  const meta = params?._meta;
  return isJsonObject(meta) ? meta[versionMember] : undefined;
}

function agreeOnName(headers: McpHeaders, message: McpMessage, isStateless: boolean): void {
  const inHeader = headers.get('mcp-name');
  const source = nameOf(message);
  if (inHeader === undefined) {
    if (isStateless && message.kind === 'request' && nameRequired.includes(message.method)) {
      throw mismatch('Mcp-Name is missing');
    }
    return;
  }
  if (decodeHeader(inHeader) !== source || source === undefined) {
    throw mismatch('Mcp-Name does not name what the body does');
  }
}

function nameOf(message: McpMessage): string | undefined {
  if (message.kind !== 'request' || !Object.hasOwn(nameSources, message.method)) return undefined;
  const value = message.params?.[nameSources[message.method] ?? ''];
  return typeof value === 'string' ? value : undefined;
}

function readParams(headers: McpHeaders, message: McpMessage): ParamHeaders {
  const args = message.kind === 'request' ? message.params?.arguments : undefined;
  const params: { name: string; text: string }[] = [];
  for (const [header, value] of headers) {
    if (!header.startsWith('mcp-param-')) continue;
    const param = { name: header.slice('mcp-param-'.length), text: decodeHeader(value) };
    if (!isJsonObject(args) || !repeatsArgument(param, args)) {
      throw mismatch(`${header} repeats no argument of the body`);
    }
    params.push(param);
  }
  return params;
}

/**
 * The tool's schema names the argument that a parameter header repeats, and the server checks that
 * they agree. The sidecar only requires that the header has the value of an argument: of the
 * argument with the header's name, or of any argument if no argument has that name.
 */
function repeatsArgument(param: ParamHeaders[number], args: JsonObject): boolean {
  const found = primitives(args);
  const namesakes = found.filter(({ name }) => plain(name) === plain(param.name));
  return (namesakes.length > 0 ? namesakes : found).some(({ value }) =>
    saysSame(param.text, value),
  );
}

function primitives(object: JsonObject): { name: string; value: JsonValue }[] {
  return Object.entries(object).flatMap(([name, value]) => {
    if (isJsonObject(value)) return primitives(value);
    return value === undefined || value === null || typeof value === 'object'
      ? []
      : [{ name, value }];
  });
}

function plain(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z0-9]/g, '');
}

/** Integers compare numerically: `42.0` is 42. */
function saysSame(text: string, value: JsonValue): boolean {
  if (typeof value !== 'number') return text === String(value);
  return /^-?\d+(?:\.\d+)?$/.test(text) && Number(text) === value;
}

const sentinel = /^=\?base64\?(.*)\?=$/;
const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** A value as header text: unchanged if it is plain ASCII, otherwise `=?base64?…?=`. */
function encodeHeader(text: string): string {
  const isPlain = /^[\t\x20-\x7e]+$/.test(text) && text.trim() === text && !sentinel.test(text);
  return isPlain ? text : `=?base64?${Buffer.from(text, 'utf8').toString('base64')}?=`;
}

function decodeHeader(value: string): string {
  const encoded = sentinel.exec(value)?.[1];
  if (encoded === undefined) return value;
  if (!base64.test(encoded)) throw mismatch('a header is not valid base64');
  const text = Buffer.from(encoded, 'base64').toString('utf8');
  if (text.includes('\ufffd')) throw mismatch('a header is not UTF-8');
  return text;
}

/** The MCP headers of the forwarded message, written from the message itself. */
export function writeMcpHeaders(
  headers: McpHeaders,
  message: McpMessage,
  { isStateless, params }: Agreement,
): string[] {
  const written = sessionHeaders(headers);
  if (message.kind === 'response') return written;
  if (isStateless || headers.has('mcp-method')) written.push('mcp-method', message.method);
  const name = nameOf(message);
  if (name !== undefined && (isStateless || headers.has('mcp-name'))) {
    written.push('mcp-name', encodeHeader(name));
  }
  const args = message.params?.arguments;
  for (const param of params) {
    // If a human changed the arguments, a header may no longer repeat any of them.
    if (!isJsonObject(args) || !repeatsArgument(param, args)) continue;
    written.push(`mcp-param-${param.name}`, encodeHeader(param.text));
  }
  return written;
}

/** The headers that belong to the session, not to a single message. */
export function sessionHeaders(headers: McpHeaders): string[] {
  return ['mcp-protocol-version', 'mcp-session-id', 'last-event-id'].flatMap((name) => {
    const value = headers.get(name);
    return value === undefined ? [] : [name, value];
  });
}

function mismatch(what: string): GatewayError {
  return new GatewayError('mcp.header_mismatch', {
    message: `The MCP headers do not match the body: ${what}.`,
  });
}
