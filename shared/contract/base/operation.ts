import type { z } from 'zod';
import type { JsonSizeLimits } from '../../base/strict-json.ts';
import type { ErrorCode } from '../../errors/error-kinds.ts';

export const permissions = [
  'action.preflight',
  'action.execute',
  'passport.issue',
  'passport.revoke',
  'passport.verify',
  'sidecar.enrol',
  'approval.decide',
  'reauth.attest',
  'policy.write',
  'policy.publish',
  'tool.write',
  'agent.write',
  'credential.write',
  'key.write',
  'settings.write',
  'integration.write',
  'runtime.write',
  'evidence.read',
  'evidence.write',
  'evidence.export',
  'integration.itsm',
  'acl.sync',
  'delivery.drain',
  'read',
] as const;
export type Permission = (typeof permissions)[number];

/** `sidecar`: a short-lived JWT signed by an enrolled sidecar's own key. */
export type Authentication = 'none' | 'bearer' | 'gateway' | 'sidecar';

/** The request budget that a call counts against. */
export type Budget = 'tenant' | 'control' | 'sidecar' | 'address';

export interface ResponseShape<Schema extends z.ZodType = z.ZodType> {
  readonly description: string;
  readonly schema?: Schema;
  readonly example?: unknown;
  readonly contentType?: string;
  /** Media types that clients can select by a parameter or header; their content is text. */
  readonly otherContentTypes?: readonly string[];
}

/**
 * How the access test suite checks that another tenant's object is not found (404). By default, the
 * last path parameter identifies an object of the collection whose path precedes the parameter: in
 * `/v1/policies/{id}/versions`, an object of `/v1/policies`. An operation for which this default is
 * wrong declares the object here: `object` is the collection, and `'{id}'` in any part is replaced
 * by the id of an object that the suite creates in another tenant. `own-name`: the caller chooses
 * the object's name, so the same name in two tenants denotes two objects.
 */
export type AccessExample =
  | 'own-name'
  | {
      readonly object: string;
      readonly params?: Readonly<Record<string, string>>;
      readonly query?: Readonly<Record<string, string>>;
      readonly body?: unknown;
    };

/**
 * The format of a body. `json` is the default. `form` is `application/x-www-form-urlencoded`,
 * parsed as an object of strings. `ndjson` is parsed as an array of its lines, each as the exact
 * text received. `raw` is not parsed: the handler gets the bytes, for signatures.
 */
export type BodyType = 'json' | 'form' | 'json-or-form' | 'ndjson' | 'raw';

/**
 * One API operation, declared once. Route, validation, authentication, permission check, typed
 * client and OpenAPI document all derive from this value.
 */
export interface Operation<
  Params extends z.ZodType = z.ZodType,
  Query extends z.ZodType = z.ZodType,
  Body extends z.ZodType = z.ZodType,
  Success extends z.ZodType = z.ZodType,
> {
  /** camelCase verb and noun; the client's method name and the OpenAPI `operationId`. */
  readonly id: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Below `/api`, with `{name}` parameters: `/v1/policies/{id}`. */
  readonly path: string;
  readonly tag: string;
  readonly summary: string;
  readonly description?: string;
  readonly auth: Authentication;
  /** Operations with `bearer` or `gateway` authentication require exactly one permission. */
  readonly permission?: Permission;
  /** Default: `sidecar` for sidecars, `address` without authentication, otherwise `tenant`. */
  readonly budget?: Budget;
  /** Requests per minute if the operation has a limit of its own; counted separately. */
  readonly budgetPerMinute?: number;
  readonly params?: Params;
  /** True if the last parameter matches the rest of the path, including slashes. */
  readonly isPathOpen?: boolean;
  /** Unknown query parameters are refused. */
  readonly query?: Query;
  readonly body?: Body;
  readonly bodyType?: BodyType;
  readonly bodyExample?: unknown;
  /** Default: 1 MiB. */
  readonly bodyBytesMax?: number;
  /** Limits on the content of a JSON body. Default: `argumentLimits`. */
  readonly bodySize?: JsonSizeLimits;
  readonly accessExample?: AccessExample;
  /**
   * True if the operation decides an action; each error response then contains `decision: "deny"`.
   */
  readonly isDecision?: boolean;
  readonly success: { readonly status: number } & ResponseShape<Success>;
  /** Further success statuses (a 201 in addition to a 200) with the same shape. */
  readonly alsoStatus?: readonly number[];
  /** The reason codes that callers should expect in addition to the common ones. */
  readonly errors: readonly ErrorCode[];
}

// biome-ignore lint/suspicious/noExplicitAny: an operation of any shape; zod's types are invariant
export type AnyOperation = Operation<any, any, any, any>;

/** Preserves the exact types of an operation's schemas. */
export function operation<
  Params extends z.ZodType = z.ZodUndefined,
  Query extends z.ZodType = z.ZodUndefined,
  Body extends z.ZodType = z.ZodUndefined,
  Success extends z.ZodType = z.ZodUndefined,
>(declared: Operation<Params, Query, Body, Success>): Operation<Params, Query, Body, Success> {
  return declared;
}
