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

/** `sidecar`: a short JWT signed by an enrolled sidecar's own key. */
export type Authentication = 'none' | 'bearer' | 'gateway' | 'sidecar';

/** Which request budget a call counts against. */
export type Budget = 'tenant' | 'control' | 'sidecar' | 'address';

export interface ResponseShape<Schema extends z.ZodType = z.ZodType> {
  readonly description: string;
  readonly schema?: Schema;
  readonly example?: unknown;
  readonly contentType?: string;
  /** Media types that a parameter or a header asks for; their content is text. */
  readonly otherContentTypes?: readonly string[];
}

/**
 * How the access suite proves that another tenant's object is out of reach (404). By default the
 * last path parameter names an object of the collection that the path before it lists: for
 * `/v1/policies/{id}/versions` one of `/v1/policies`. Where that is not so, this says what the
 * call addresses: `object` is the collection, and `'{id}'`, wherever it stands in the parts, is
 * replaced by the id of an object that the suite makes in another tenant. `own-name`: the caller
 * names what it writes, so that the same name in two tenants is two objects.
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
 * How a body arrives. `json` is the default; `form` is `application/x-www-form-urlencoded`, read
 * as an object of strings; `ndjson` is read as the array of its lines, each as exactly the text that
 * came; `raw` is not read at all: the handler gets the bytes, for signatures.
 */
export type BodyType = 'json' | 'form' | 'json-or-form' | 'ndjson' | 'raw';

/**
 * One API operation, declared once. Route, validation, authentication, permission check,
 * typed client and OpenAPI document are all made from this value.
 */
export interface Operation<
  Params extends z.ZodType = z.ZodType,
  Query extends z.ZodType = z.ZodType,
  Body extends z.ZodType = z.ZodType,
  Success extends z.ZodType = z.ZodType,
> {
  /** camelCase verb and noun; the client's method name and OpenAPI `operationId`. */
  readonly id: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Below `/api`, with `{name}` parameters: `/v1/policies/{id}`. */
  readonly path: string;
  readonly tag: string;
  readonly summary: string;
  readonly description?: string;
  readonly auth: Authentication;
  /** Checked for `bearer` and `gateway`; every such operation names exactly one. */
  readonly permission?: Permission;
  /** Default: `sidecar` for sidecars, `address` without authentication, else `tenant`. */
  readonly budget?: Budget;
  /** Requests a minute, where the budget's own number does not fit; counted apart from it. */
  readonly budgetPerMinute?: number;
  readonly params?: Params;
  /** The last parameter takes the rest of the path, slashes included. */
  readonly isPathOpen?: boolean;
  /** Unknown query parameters are refused, always. */
  readonly query?: Query;
  readonly body?: Body;
  readonly bodyType?: BodyType;
  readonly bodyExample?: unknown;
  /** Default: 1 MiB. */
  readonly bodyBytesMax?: number;
  /** How much a JSON body may hold. Default: what arguments may. */
  readonly bodySize?: JsonSizeLimits;
  readonly accessExample?: AccessExample;
  /** It decides on an action: each error answer says `decision: "deny"`. */
  readonly isDecision?: boolean;
  readonly success: { readonly status: number } & ResponseShape<Success>;
  /** Further success statuses (a 201 beside a 200) with the same shape. */
  readonly alsoStatus?: readonly number[];
  /** The reason codes that callers should expect beyond the common ones. */
  readonly errors: readonly ErrorCode[];
}

// biome-ignore lint/suspicious/noExplicitAny: an operation of any shape; zod's types are invariant
export type AnyOperation = Operation<any, any, any, any>;

/** Keeps the exact types of an operation's schemas. */
export function operation<
  Params extends z.ZodType = z.ZodUndefined,
  Query extends z.ZodType = z.ZodUndefined,
  Body extends z.ZodType = z.ZodUndefined,
  Success extends z.ZodType = z.ZodUndefined,
>(declared: Operation<Params, Query, Body, Success>): Operation<Params, Query, Body, Success> {
  return declared;
}
