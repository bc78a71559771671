import type { Request } from 'express';
import type { z } from 'zod';
import type { AnyOperation } from '../../../shared/contract/base/operation.ts';
import type { ErrorCode } from '../../../shared/errors/error-kinds.ts';
import { GatewayError } from '../../../shared/errors/gateway-error.ts';
import { readPairs, refuseText } from './body.ts';
import type { Input } from './route.ts';

const issuesMax = 10;

/** Validates path, query and body with the operation's schemas. Errors name the invalid field. */
export function validateInput(
  operation: AnyOperation,
  req: Request,
  bodyValue: unknown,
): Input<AnyOperation> {
  const params = paramsOf(req);
  for (const value of Object.values(params)) refuseText(value, 'path');
  return {
    params: check(operation.params, operation.params && params, 'path', 'request.invalid'),
    query: readQuery(operation, req.originalUrl),
    body: readBodyValue(operation, bodyValue),
  } as Input<AnyOperation>;
}

/** Reads the path parameters. A wildcard parameter arrives as an array of segments. */
function paramsOf({ params }: Request): Readonly<Record<string, string>> {
  const texts = Object.entries(params).map(([name, value]) => [name, [value].flat().join('/')]);
  return Object.fromEntries(texts);
}

function readQuery(operation: AnyOperation, url: string): unknown {
  const at = url.indexOf('?');
  const given = readPairs(new URLSearchParams(at < 0 ? '' : url.slice(at + 1)), 'query');
  const known = operation.query === undefined ? [] : namesOf(operation.query);
  const unknown = Object.keys(given).find((name) => !known.includes(name));
  if (unknown !== undefined) {
    throw new GatewayError('request.invalid', {
      message: `query: ${unknown.slice(0, 100)} is not a parameter of this operation${listed(known)}.`,
    });
  }
  return check(operation.query, given, 'query', 'request.invalid');
}

function listed(known: readonly string[]): string {
  return known.length === 0 ? '; it takes none' : `; known are ${known.join(', ')}`;
}

/** Returns the parameter names of an object schema. */
export function namesOf(schema: z.ZodType): readonly string[] {
  return 'shape' in schema && typeof schema.shape === 'object' && schema.shape !== null
    ? Object.keys(schema.shape)
    : [];
}

function readBodyValue(operation: AnyOperation, value: unknown): unknown {
  return operation.bodyType === 'raw'
    ? undefined
    : check(operation.body, value, 'body', 'args.schema_invalid');
}

function check(
  schema: z.ZodType | undefined,
  value: unknown,
  where: string,
  code: ErrorCode,
): unknown {
  if (schema === undefined) return undefined;
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const message =
    value === undefined
      ? `A JSON ${where} is required.`
      : describeIssues(parsed.error.issues, where);
  throw new GatewayError(code, { message });
}

/**
 * Lists the problems of a value, each as a path and a message: `rules[2].name: …; …`. Never repeats
 * values.
 */
function describeIssues(issues: readonly z.core.$ZodIssue[], where: string): string {
  const shown = issues
    .slice(0, issuesMax)
    .map((issue) => `${pathText(issue.path) || where}: ${issue.message}`);
  const rest = issues.length - shown.length;
  return `${shown.join('; ')}${rest > 0 ? `; and ${rest} more` : ''}.`;
}

function pathText(path: readonly PropertyKey[]): string {
  return path
    .map((part) => (typeof part === 'number' ? `[${part}]` : `.${String(part).slice(0, 100)}`))
    .join('')
    .replace(/^\./, '');
}
