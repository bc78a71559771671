import type { JsonObject, JsonValue } from '../base/json.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import { argumentText, refuseDuplicateNames, setMember } from './args.ts';
import type { Binding } from './binding.ts';
import { writeForm } from './form.ts';
import { allowedHeaders } from './headers.ts';
import { refuseMethodOverride } from './method-override.ts';
import { encodeSegment, type PathTemplate, parsePathTemplate } from './path.ts';

export interface BuiltRequest {
  readonly method: string;
  /** Origin form: path and query. */
  readonly path: string;
  /** `[name, value, …]`, lower-case names, without Host and framing. */
  readonly headers: readonly string[];
  readonly body: Buffer | null;
}

type BodyKind = 'json' | 'form' | 'none';

const bodiless: ReadonlySet<string> = new Set(['GET', 'HEAD', 'DELETE', 'OPTIONS']);

/**
 * Returns the kind of body in which arguments outside the path are sent. If the kind is `none`,
 * they are sent in the query.
 */
export function bodyKind(binding: Pick<Binding, 'body' | 'method'>): BodyKind {
  return binding.body ?? (bodiless.has(binding.method ?? '') ? 'none' : 'json');
}

/**
 * Builds the canonical request for these arguments. The position of an argument depends only on the
 * binding and the argument's name, and each argument has exactly one encoding there.
 */
export function buildRequest(
  binding: Binding,
  args: JsonObject,
  { agentHeaders = [] }: { readonly agentHeaders?: readonly string[] } = {},
): BuiltRequest {
  const template = templateOf(binding);
  const kind = bodyKind(binding);
  refuseDuplicateNames(args);
  refuseMethodOverride(Object.keys(args));
  const rest = new Map(
    Object.entries(args).filter((entry): entry is [string, JsonValue] => entry[1] !== undefined),
  );
  const path = fillPath(template, rest);
  const query = takeQuery(kind === 'none' ? [...rest.keys()] : template.queryNames, rest);
  const headers = allowedHeaders(agentHeaders, binding.headers);
  if (kind !== 'none') headers.push('content-type', contentTypes[kind]);
  return {
    method: binding.method ?? 'GET',
    path: query === '' ? path : `${path}?${query}`,
    headers,
    body: kind === 'none' ? null : Buffer.from(writeBody(kind, rest)),
  };
}

const contentTypes = {
  json: 'application/json',
  form: 'application/x-www-form-urlencoded',
} as const;

// Bindings are immutable, so each template is parsed once.
const templates = new WeakMap<Binding, PathTemplate>();

/** The parsed path template of an `http` binding. */
export function templateOf(binding: Binding): PathTemplate {
  const known = templates.get(binding);
  if (known !== undefined) return known;
  const template = parsePathTemplate(binding.path ?? '');
  templates.set(binding, template);
  return template;
}

function fillPath(template: PathTemplate, rest: Map<string, JsonValue>): string {
  let path = '';
  for (const segment of template.segments) {
    if ('literal' in segment) {
      path += `/${segment.literal}`;
      continue;
    }
    path += `/${encodeSegment(plainText(segment.parameter, rest.get(segment.parameter)))}`;
    rest.delete(segment.parameter);
  }
  return path;
}

function takeQuery(names: readonly string[], rest: Map<string, JsonValue>): string {
  const entries: [string, string][] = [];
  for (const name of names) {
    if (!rest.has(name)) continue;
    entries.push([name, plainText(name, rest.get(name))]);
    rest.delete(name);
  }
  return writeForm(entries);
}

function writeBody(kind: 'json' | 'form', rest: Map<string, JsonValue>): string {
  if (kind === 'form') {
    return writeForm([...rest].map(([name, value]) => [name, plainText(name, value)]));
  }
  const body: Record<string, JsonValue> = {};
  for (const [name, value] of rest) setMember(body, name, value);
  return JSON.stringify(body);
}

function plainText(name: string, value: JsonValue | undefined): string {
  const text = argumentText(value);
  if (text !== undefined) return text;
  throw new GatewayError('args.schema_invalid', {
    message: `The argument ${JSON.stringify(name.slice(0, 100))} must be a string, a number or a boolean here${value === undefined ? '; it is missing' : ''}.`,
  });
}
