import { GatewayError } from '../errors/gateway-error.ts';

/** One segment of a path template: literal text, or a parameter that fills the whole segment. */
type TemplateSegment = { readonly literal: string } | { readonly parameter: string };

/**
 * A parsed path template, such as `/v1/payments/{payment_id}{?expand}`: its segments, and the query
 * parameters that it allows.
 */
export interface PathTemplate {
  readonly segments: readonly TemplateSegment[];
  readonly queryNames: readonly string[];
  /** Number of literal segments; more literals make a template more specific. */
  readonly literals: number;
}

// RFC 3986 pchar without percent-encoding and without `;`, so that a literal has one canonical
// form.
const literalForm = /^[A-Za-z0-9\-._~!$&'()*+,=:@]*$/;
const parameterForm = /^\{([A-Za-z_][A-Za-z0-9_-]*)\}$/;
// RFC 6570, form-style query expansion.
const queryForm = /^(.*?)\{\?([A-Za-z0-9_.$[\]-]+(?:,[A-Za-z0-9_.$[\]-]+)*)\}$/;

/** Parses a path template; throws `binding.invalid` with the problem. */
export function parsePathTemplate(template: string): PathTemplate {
  const [, path = template, names = ''] = queryForm.exec(template) ?? [];
  if (!path.startsWith('/')) throw invalid(template, 'must start with /');
  const texts = path.slice(1).split('/');
  const segments = texts.map((text, index) =>
    parseSegment(template, text, index === texts.length - 1),
  );
  const queryNames = names === '' ? [] : names.split(',');
  const all = [...parametersOf(segments), ...queryNames];
  if (all.includes('__proto__')) throw invalid(template, 'cannot have a parameter __proto__');
  if (new Set(all).size !== all.length) throw invalid(template, 'names a parameter twice');
  const literals = segments.filter((segment) => 'literal' in segment).length;
  return { segments, queryNames, literals };
}

function parseSegment(template: string, text: string, isLast: boolean): TemplateSegment {
  const parameter = parameterForm.exec(text)?.[1];
  if (parameter !== undefined) return { parameter };
  if (text === '' && !isLast) throw invalid(template, 'has an empty segment');
  if (text === '.' || text === '..') throw invalid(template, 'has a dot segment');
  if (!literalForm.test(text)) {
    throw invalid(
      template,
      `has the segment "${text}", which is neither plain text nor {name} for the whole segment`,
    );
  }
  return { literal: text };
}

function parametersOf(segments: readonly TemplateSegment[]): string[] {
  return segments.flatMap((segment) => ('parameter' in segment ? [segment.parameter] : []));
}

function invalid(template: string, what: string): GatewayError {
  return new GatewayError('binding.invalid', { message: `path: "${template}" ${what}.` });
}

// Printable ASCII except `#`, `;` and the backslash; the query has already been cut off.
const sentForm = /^\/[!"$-:<-[\]-~]*$/;
const encodedSeparator = /%(?:2f|5c)/i;

/**
 * Splits the path of a request into segments, each percent-decoded exactly once. Refuses every form
 * that an upstream might read as another path: dot segments, empty segments, encoded separators,
 * `;`, backslashes, control characters, and text that changes when decoded again.
 */
export function splitPath(path: string): string[] {
  if (!sentForm.test(path) || encodedSeparator.test(path)) throw refused();
  const texts = path.slice(1).split('/');
  const last = texts.length - 1;
  return texts.map((text, index) => {
    const value = text.includes('%') ? decodeOnce(text) : text;
    if (value === '' && index === last) return value;
    if (!isSegmentValue(value)) throw refused();
    return value;
  });
}

function decodeOnce(text: string): string {
  try {
    // Decodes once and accepts only well-formed UTF-8.
    return decodeURIComponent(text);
  } catch (cause) {
    throw new GatewayError('proxy.path_refused', { cause });
  }
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: these characters are refused
const unfitForSegment = /[/\\;\u0000-\u001f\u007f-\u009f]|%[0-9a-f]{2}/i;

/**
 * True if every upstream reads a value as a single segment, whether the value is encoded or not.
 */
function isSegmentValue(value: string): boolean {
  return value !== '' && value !== '.' && value !== '..' && !unfitForSegment.test(value);
}

/** Encodes a value as one path segment; refuses values that `splitPath` would refuse. */
export function encodeSegment(value: string): string {
  if (!isSegmentValue(value) || !value.isWellFormed()) {
    throw new GatewayError('proxy.path_refused', {
      message:
        'An argument cannot be one segment of the path; send a value without "/", "\\", ";", control characters and percent escapes.',
    });
  }
  return encodeURIComponent(value);
}

/** Returns the path parameters if the segments match the template, else undefined. */
export function matchSegments(
  template: PathTemplate,
  segments: readonly string[],
): readonly (readonly [string, string])[] | undefined {
  if (template.segments.length !== segments.length) return undefined;
  const parameters: [string, string][] = [];
  for (const [index, wanted] of template.segments.entries()) {
    const sent = segments[index] ?? '';
    if ('literal' in wanted) {
      if (wanted.literal !== sent) return undefined;
    } else if (sent === '') return undefined;
    else parameters.push([wanted.parameter, sent]);
  }
  return parameters;
}

/** True if some path matches both templates. */
export function templatesOverlap(one: PathTemplate, other: PathTemplate): boolean {
  if (one.segments.length !== other.segments.length) return false;
  return one.segments.every((segment, index) => {
    const against = other.segments[index];
    if (against === undefined) return false;
    if ('literal' in segment && 'literal' in against) return segment.literal === against.literal;
    // A parameter matches any segment except the empty one after a trailing slash.
    const literal =
      'literal' in segment ? segment.literal : 'literal' in against && against.literal;
    return literal !== '';
  });
}

/** Splits a request target into path and query. A request target cannot contain a fragment. */
export function splitTarget(target: string): { path: string; query: string } {
  const mark = target.indexOf('?');
  return mark < 0
    ? { path: target, query: '' }
    : { path: target.slice(0, mark), query: target.slice(mark + 1) };
}

function refused(): GatewayError {
  return new GatewayError('proxy.path_refused', {
    message:
      'The path is ambiguous: send it without dot segments, empty segments, encoded separators, ";" and backslashes.',
  });
}
