import type { JsonObject } from '../base/json.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import { argumentText } from './args.ts';

const parameter = /\{(\+?)([A-Za-z_][A-Za-z0-9_.-]*)\}/g;
// A value with a separator could be read as several parts of the resource.
const separator = /[/:\\\p{Cc}\u2028\u2029]/u;
const backslash = /[\\\p{Cc}\u2028\u2029]/u;

/** Returns the problem of a resource template such as `payment:{payment_id}` or `file:{+path}`. */
export function resourceTemplateProblem(template: string): string | undefined {
  const literal = template.replaceAll(parameter, '');
  if (template === '' || /[{}]/.test(literal)) return 'has a brace outside a {name}';
  const wide = template.indexOf('{+');
  const isLast = wide < 0 || template.indexOf('}', wide) === template.length - 1;
  return isLast
    ? undefined
    : 'has {+name} before its end; move it to the end, because the text after it could be part of the value';
}

/**
 * Fills a resource template from arguments. `{name}` accepts only values without `/`, `:` and `\`.
 * `{+name}`, allowed only at the end, also accepts these characters, but no dot segments (RFC 6570
 * section 3.2.3). Other values are refused, so that a resource cannot be read in two ways.
 * Undefined if a named argument is absent, empty, or not a string, number or boolean.
 */
export function fillResource(template: string, args: JsonObject): string | undefined {
  let isComplete = true;
  const resource = template.replaceAll(parameter, (_, plus: string, name: string) => {
    const text = Object.hasOwn(args, name) ? argumentText(args[name]) : undefined;
    if (text === undefined || text === '') isComplete = false;
    else if (!(plus === '' ? isOnePart(text) : isPath(text))) throw ambiguous(name, plus);
    return text ?? '';
  });
  return isComplete ? resource : undefined;
}

function isOnePart(text: string): boolean {
  return text !== '.' && text !== '..' && !separator.test(text);
}

function isPath(text: string): boolean {
  const parts = text.split(/[/:]/);
  return !backslash.test(text) && !parts.includes('.') && !parts.includes('..');
}

function ambiguous(name: string, plus: string): GatewayError {
  const message =
    plus === ''
      ? `The argument ${name} is part of the resource and holds "/", ":", "\\" or a control character, or is a dot segment; send a value without, or have the operator write {+${name}} in the binding's resource.`
      : `The argument ${name} is part of the resource and has a dot segment, a backslash or a control character; send it without.`;
  return new GatewayError('args.resource_ambiguous', { message });
}

/**
 * Like `fillResource`, but throws if an argument is missing, because the call cannot be evaluated
 * without its resource.
 */
export function requireResource(template: string, args: JsonObject): string {
  const resource = fillResource(template, args);
  if (resource !== undefined) return resource;
  throw new GatewayError('args.schema_invalid', {
    message: `The resource ${template} needs arguments that are missing or are not plain text.`,
  });
}
