import { isJsonObject, type JsonObject, type JsonValue } from '../base/json.ts';
import type { PolicyContext } from '../policy/language/context.ts';
import { fieldAt } from '../policy/language/context-fields.ts';
import { joinPath, refuse, show } from '../policy/language/json-bounds.ts';
import { readLabel, readList, readObject, readOneOf, readText } from '../policy/language/shape.ts';
import { environments, modes } from '../vocabulary/action.ts';
import { decisions } from '../vocabulary/verdict.ts';
import type { CaseAction, CaseExpectation, CaseFile, PolicyCase } from './policy-case.ts';
import { atLine, readSource, type SourceFile } from './source.ts';

const casesMax = 2000;
const namesMax = 1000;
const fileKeys = ['policies', 'cases'];
const caseKeys = ['name', 'action', 'context', 'expect'];
const actionTexts = [
  ['resource', 1024],
  ['agent_id', 64],
  ['agent_name', 256],
  ['user_id', 256],
  ['goal', 4096],
] as const;
const actionKeys = ['tool', 'args', 'mode', 'environment', ...actionTexts.map(([name]) => name)];
const expectKeys = ['decision', 'reason_code', 'matched_rules', 'observed'];

/** Parses a file of policy cases, YAML or JSON; throws SourceError if it is invalid. */
export function readCaseFile(given: SourceFile): CaseFile {
  const source = readSource(given);
  return atLine(source, () => {
    const { policies, cases } = readObject(source.value, '', fileKeys);
    const read = readCases(cases);
    return {
      file: source.file,
      policies: policies === undefined ? undefined : readNames(policies, 'policies'),
      cases: read,
      lines: read.map((_, index) => source.lineOf(`cases[${index}]`)),
    };
  });
}

function readCases(value: JsonValue | undefined): readonly PolicyCase[] {
  const list = readList(value, 'cases', { max: casesMax, of: 'cases' });
  if (list.length === 0) refuse('cases', 'must contain at least one case');
  const seen = new Set<string>();
  return list.map((item, index) => {
    const path = `cases[${index}]`;
    const one = readCase(item, path);
    if (seen.has(one.name)) {
      refuse(
        joinPath(path, 'name'),
        `${show(one.name)} is already the name of a case above; use another`,
      );
    }
    seen.add(one.name);
    return one;
  });
}

function readCase(value: JsonValue, path: string): PolicyCase {
  const { name, action, context, expect } = readObject(value, path, caseKeys);
  const label = readLabel(name, joinPath(path, 'name'), 200);
  if ((action === undefined) === (context === undefined)) {
    refuse(path, 'must have either action or context');
  }
  return {
    name: label,
    ...(action === undefined ? {} : { action: readAction(action, joinPath(path, 'action')) }),
    ...(context === undefined ? {} : { context: readContext(context, joinPath(path, 'context')) }),
    expect: readExpectation(expect, joinPath(path, 'expect')),
  };
}

function readAction(value: JsonValue, path: string): CaseAction {
  const fields = readObject(value, path, actionKeys);
  const { tool, args, mode, environment } = fields;
  const texts = actionTexts.flatMap(([name, lengthMax]) => {
    const text = fields[name];
    return text === undefined ? [] : [[name, readLabel(text, joinPath(path, name), lengthMax)]];
  });
  return {
    tool: readLabel(tool, joinPath(path, 'tool'), 256),
    ...(args === undefined ? {} : { args: readAnyObject(args, joinPath(path, 'args')) }),
    ...Object.fromEntries(texts),
    ...(mode === undefined ? {} : { mode: readOneOf(mode, joinPath(path, 'mode'), modes) }),
    ...(environment === undefined
      ? {}
      : { environment: readOneOf(environment, joinPath(path, 'environment'), environments) }),
  };
}

function readAnyObject(value: JsonValue, path: string): JsonObject {
  if (!isJsonObject(value)) refuse(path, `${show(value)} is not an object`);
  return value;
}

function readContext(value: JsonValue, path: string): PolicyContext {
  const context = readAnyObject(value, path);
  checkContext(context, path);
  return context as PolicyContext;
}

function readExpectation(value: JsonValue | undefined, path: string): CaseExpectation {
  const { decision, reason_code, matched_rules, observed } = readObject(value, path, expectKeys);
  const names = (list: JsonValue, name: string) => readNames(list, joinPath(path, name));
  return {
    decision: readOneOf(decision, joinPath(path, 'decision'), decisions),
    ...(reason_code === undefined
      ? {}
      : { reason_code: readText(reason_code, joinPath(path, 'reason_code'), 200) }),
    ...(matched_rules === undefined
      ? {}
      : { matched_rules: names(matched_rules, 'matched_rules') }),
    ...(observed === undefined ? {} : { observed: names(observed, 'observed') }),
  };
}

function readNames(value: JsonValue, path: string): readonly string[] {
  return readList(value, path, { max: namesMax, of: 'names' }).map((name, index) =>
    readLabel(name, `${path}[${index}]`, 400),
  );
}

/**
 * Refuses a context that no decision can have. Otherwise, a case with a misspelt field could pass
 * because its rule never matches.
 */
function checkContext(context: JsonObject, path: string): void {
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
