import { splitAuthority } from '../base/host.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { Binding, BindingUpstream } from './binding.ts';
import { headerProblem } from './headers.ts';
import { authorityKey, endpointOf } from './match.ts';
import { parsePathTemplate } from './path.ts';
import { resourceTemplateProblem } from './resource.ts';
import { readUpstreamUrl } from './upstream.ts';

const nameForm = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$/;
// No dot, because `mcp.<server>.<tool>` must identify exactly one server and one tool.
const serverForm = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/;
const toolForm = /^[A-Za-z0-9_-]+(?:[./:][A-Za-z0-9_-]+)*$/;
const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];

/**
 * Returns the problems of a binding whose fields have the right types. Each message names a field
 * and says what to do. An empty list means that the binding is valid.
 */
export function checkBinding(binding: Binding): string[] {
  const problems = [...checkName(binding), ...checkHost(binding.host)];
  switch (binding.protocol) {
    case 'http':
      problems.push(...checkHttp(binding));
      break;
    case 'mcp':
      problems.push(...checkMcp(binding));
      break;
    case 'passthrough':
      problems.push(
        ...unused(binding, [
          'tool',
          'method',
          'path',
          'body',
          'resource',
          'headers',
          'upstream',
          'list_actions',
        ]),
      );
      break;
    default:
      problems.push('protocol: must be http, mcp or passthrough.');
  }
  if (binding.upstream !== undefined) problems.push(...checkUpstream(binding.upstream));
  const fault =
    binding.resource === undefined ? undefined : resourceTemplateProblem(binding.resource);
  if (fault !== undefined) problems.push(`resource: "${binding.resource}" ${fault}.`);
  for (const name of binding.headers ?? []) {
    const problem = headerProblem(name);
    if (problem !== undefined) problems.push(`headers: ${problem}.`);
  }
  return problems;
}

function checkName({ name, protocol }: Binding): string[] {
  if (!nameForm.test(name)) {
    return ['name: must be 1 to 100 letters, digits, "_", "-" or ".", a letter or digit first.'];
  }
  return protocol === 'mcp' && !serverForm.test(name)
    ? ['name: the name of an MCP server has at most 64 characters and no dot.']
    : [];
}

/** Checks that the host is in the canonical form in which bindings and calls are compared. */
function checkHost(host: string): string[] {
  const problem = 'host: must be a lower-case A-label name or an IP literal (IPv6 in brackets)';
  const authority = splitAuthority(host, 443);
  if (authority === undefined)
    return [`${problem}, with :port only where it is neither 80 nor 443.`];
  if (authority.host === 'sallyport.internal')
    return ['host: sallyport.internal is reserved for Sallyport.'];
  const canonical = authorityKey(authority.host, authority.port);
  return canonical === host ? [] : [`${problem}; write ${canonical}.`];
}

function checkHttp(binding: Binding): string[] {
  const problems = unused(binding, ['list_actions']);
  if (binding.tool === undefined) problems.push('tool: an http binding needs the tool’s id.');
  else if (!toolForm.test(binding.tool)) {
    problems.push(`tool: "${binding.tool}" is not a tool id such as payments.refund.`);
  }
  if (binding.method === undefined || !methods.includes(binding.method)) {
    problems.push(`method: must be one of ${methods.join(', ')}.`);
  }
  if ((binding.method === 'GET' || binding.method === 'HEAD') && hasBody(binding)) {
    problems.push(
      `body: ${binding.method} has no body; remove this field, because arguments go into the query.`,
    );
  }
  if (binding.path === undefined) problems.push('path: an http binding needs a path template.');
  else problems.push(...checkTemplate(binding.path));
  return problems;
}

function hasBody({ body }: Binding): boolean {
  return body === 'json' || body === 'form';
}

function checkTemplate(path: string): string[] {
  try {
    parsePathTemplate(path);
    return [];
  } catch (error) {
    if (error instanceof GatewayError) return [error.message];
    throw error;
  }
}

function checkMcp(binding: Binding): string[] {
  const problems = unused(binding, ['tool', 'method', 'body', 'upstream']);
  const { path, query } = endpointOf(binding);
  const found = checkTemplate(path);
  if (found.length > 0) return [...problems, ...found];
  if (parsePathTemplate(path).segments.some((segment) => 'parameter' in segment)) {
    problems.push('path: an MCP endpoint must be a fixed path, without parameters.');
  }
  if (!/^[!"$-z|~]*$/.test(query))
    problems.push('path: the query of an MCP endpoint must be fixed text, without parameters.');
  return problems;
}

function checkUpstream(upstream: BindingUpstream): string[] {
  const problems: string[] = [];
  const url = readUpstreamUrl(upstream.url);
  if (url === undefined) {
    problems.push(
      'upstream.url: must be an absolute http or https URL, without user, query and fragment.',
    );
  } else problems.push(...checkTemplate(url.path).map((problem) => `upstream.url: ${problem}`));
  if (!methods.includes(upstream.method)) {
    problems.push(`upstream.method: must be one of ${methods.join(', ')}.`);
  }
  return problems;
}

function unused(binding: Binding, fields: readonly (keyof Binding)[]): string[] {
  return fields
    .filter((field) => binding[field] !== undefined)
    .map((field) => `${field}: does not apply to protocol ${binding.protocol}; remove it.`);
}
