import { isJsonObject, type JsonObject, type JsonValue } from '../base/json.ts';
import { fieldAt } from '../policy/language/context-fields.ts';
import { joinPath, refuse, show } from '../policy/language/json-bounds.ts';

/**
 * Refuses a context that no decision can have: a misspelt field would make a case pass because
 * the rule it is about never matches.
 */
export function checkContext(context: JsonObject, path: string): void {
  checkMembers(context, path, '');
}

function checkMembers(object: JsonObject, path: string, place: string): void {
  for (const [name, value] of Object.entries(object)) {
    if (value === undefined) continue;
    const below = place === '' ? name : `${place}.${name}`;
    checkField(value, joinPath(path, name), below);
  }
}

function checkField(value: JsonValue, path: string, place: string): void {
  const field = fieldAt(place);
  if (field === undefined)
    refuse(path, 'no context has this field; docs/how-to/write-policies.md lists the fields');
  if (field.kind === 'text') {
    if (typeof value !== 'string') refuse(path, `${show(value)} is not text; quote it`);
    if (field.words !== undefined && !field.words.includes(value)) {
      refuse(path, `${show(value)} is not one of ${field.words.join(', ')}`);
    }
  } else if (field.kind === 'object') {
    if (!isJsonObject(value)) refuse(path, `${show(value)} is not an object`);
    if (field.fields !== undefined) checkMembers(value, path, place);
  }
}
