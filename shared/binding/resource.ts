import { GatewayError } from '../errors.ts';
import type { JsonObject } from '../json.ts';
import { argumentText } from './args.ts';

const templateForm = /^(?:[^{}]|\{[A-Za-z_][A-Za-z0-9_.-]*\})+$/;
const parameter = /\{([^{}]+)\}/g;

/** True for text in which every brace belongs to a `{name}`. */
export function isResourceTemplate(template: string): boolean {
  return templateForm.test(template);
}

/**
 * Fills a resource template such as `payment:{payment_id}` from arguments. Undefined when an
 * argument that it names is absent, empty, or neither text, number nor boolean.
 */
export function fillResource(template: string, args: JsonObject): string | undefined {
  let isComplete = true;
  const resource = template.replace(parameter, (_, name: string) => {
    const text = Object.hasOwn(args, name) ? argumentText(args[name]) : undefined;
    if (text === undefined || text === '') isComplete = false;
    return text ?? '';
  });
  return isComplete ? resource : undefined;
}

/** The same, for a call that cannot be judged without its resource. */
export function requireResource(template: string, args: JsonObject): string {
  const resource = fillResource(template, args);
  if (resource !== undefined) return resource;
  throw new GatewayError('args.schema_invalid', {
    message: `The resource ${template} needs arguments that are missing or are not plain text.`,
  });
}
