import { z } from 'zod';
import { type ErrorCode, errorKinds } from '../../errors/error-kinds.ts';
import { Components } from './components.ts';
import { type Json, jsonSchema } from './json-schema.ts';
import type { AnyOperation } from './operation.ts';
import { apiError, decisionError } from './schemas.ts';

export const contractVersion = '1.1.1';

/** The OpenAPI 3.1 document of the given operations; deterministic. */
export function openApiDocument(operations: readonly AnyOperation[]): Json {
  const tags = [...new Set(operations.map(({ tag }) => tag))].sort();
  const components = new Components();
  const paths = pathsOf(operations, components);
  return {
    openapi: '3.1.0',
    info: {
      title: 'Sallyport',
      version: contractVersion,
      summary: 'Agent action authorization gateway',
      description:
        'Decides whether each action of an AI agent may proceed, performs it with credentials that the agent never sees, and records signed evidence of every decision.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/api' }],
    tags: tags.map((name) => ({ name })),
    paths,
    components: {
      schemas: components.all(),
      headers: rateLimitHeaders,
      securitySchemes,
    },
  };
}

/** Every response to an authenticated caller states the remaining budget. */
const rateLimitHeaders = {
  'RateLimit-Policy': {
    description:
      'The policy of the budget (draft-ietf-httpapi-ratelimit-headers): its name, the number of requests (`q`) and the window in seconds (`w`).',
    schema: { type: 'string' },
    example: '"tenant";q=600;w=60',
  },
  RateLimit: {
    description: 'The remaining requests (`r`), and the seconds until the budget resets (`t`).',
    schema: { type: 'string' },
    example: '"tenant";r=599;t=42',
  },
};

const budgetHeaders = Object.fromEntries(
  Object.keys(rateLimitHeaders).map((name) => [name, { $ref: `#/components/headers/${name}` }]),
);

const securitySchemes = {
  apiKey: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'apk_…',
    description: 'An API key of the tenant, with the permission that the operation requires.',
  },
  gatewayKey: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'apk_…',
    description: 'An API key with gateway scope.',
  },
  sidecarToken: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description:
      'A JWT with a lifetime of at most one minute, signed by the enrolled key of the sidecar.',
  },
};

const securityByAuth = {
  none: [],
  bearer: [{ apiKey: [] }],
  gateway: [{ gatewayKey: [] }],
  sidecar: [{ sidecarToken: [] }],
} as const satisfies Record<AnyOperation['auth'], readonly unknown[]>;

function pathsOf(operations: readonly AnyOperation[], components: Components): Json {
  const paths: Record<string, Json> = {};
  for (const operation of operations) {
    const path = paths[operation.path] ?? {};
    paths[operation.path] = path;
    path[operation.method.toLowerCase()] = operationObject(operation, components);
  }
  return paths;
}

function operationObject(operation: AnyOperation, components: Components): Json {
  const { id, tag, summary, description, auth, permission } = operation;
  const asked = permission === undefined ? undefined : `Requires the permission \`${permission}\`.`;
  const text = [description, asked].filter((part) => part !== undefined).join('\n\n');
  const parameters = [
    ...parametersOf(operation.params, 'path'),
    ...parametersOf(operation.query, 'query'),
  ];
  const requestBody = requestBodyOf(operation, components);
  return {
    operationId: id,
    tags: [tag],
    summary,
    ...(text === '' ? {} : { description: text }),
    security: securityByAuth[auth],
    ...(permission === undefined ? {} : { 'x-permission': permission }),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(requestBody === undefined ? {} : { requestBody }),
    responses: responsesOf(operation, components),
  };
}

function parametersOf(schema: z.ZodType | undefined, place: 'path' | 'query'): Json[] {
  if (schema === undefined) return [];
  const { properties = {}, required = [] } = jsonSchema(schema, 'input') as {
    properties?: Record<string, Json>;
    required?: readonly string[];
  };
  return Object.entries(properties).map(([name, property]) => ({
    name,
    in: place,
    required: place === 'path' || required.includes(name),
    schema: property,
  }));
}

const formType = 'application/x-www-form-urlencoded';
const mediaTypes = {
  json: ['application/json'],
  form: [formType],
  'json-or-form': ['application/json', formType],
  ndjson: ['application/x-ndjson'],
  raw: ['application/octet-stream'],
} as const;

function requestBodyOf(operation: AnyOperation, components: Components): Json | undefined {
  const { body, bodyType = 'json' } = operation;
  if (body === undefined && bodyType !== 'raw') return undefined;
  const media = bodyType === 'ndjson' ? linesOf(operation) : mediaOf(operation, components);
  return {
    required: body !== undefined && !body.safeParse(undefined).success,
    content: Object.fromEntries(mediaTypes[bodyType].map((type) => [type, media])),
  };
}

/** Returns a type name for generated clients, such as `RegisterAgentRequest`. */
function typeName({ id }: AnyOperation, kind: 'Request' | 'Response' | 'Json'): string {
  return `${id.charAt(0).toUpperCase()}${id.slice(1)}${kind}`;
}

function mediaOf(operation: AnyOperation, components: Components): Json {
  const { body, bodyExample } = operation;
  return {
    schema: body === undefined ? {} : components.use(body, 'input', typeName(operation, 'Request')),
    ...(bodyExample === undefined ? {} : { example: bodyExample }),
  };
}

function linesOf({ bodyExample, bodyBytesMax }: AnyOperation): Json {
  const lines = Array.isArray(bodyExample) ? { example: `${bodyExample.join('\n')}\n` } : {};
  return { schema: { type: 'string', maxLength: bodyBytesMax }, ...lines };
}

function responsesOf(operation: AnyOperation, components: Components): Json {
  const { success, alsoStatus = [], isDecision = false } = operation;
  const responses: Json = {};
  for (const status of [success.status, ...alsoStatus]) {
    responses[status] = successResponse(operation, components);
  }
  const schema = components.use(isDecision ? decisionError : apiError, 'output');
  for (const [status, codes] of Map.groupBy(errorCodes(operation), statusOf)) {
    responses[status] ??= errorResponse(status, codes, { schema, isDecision });
  }
  return responses;
}

/** The JSON form of a response that is text by default. */
const jsonAlternative = z.looseObject({});

function successResponse(operation: AnyOperation, components: Components): Json {
  const { description, schema, example, contentType, otherContentTypes } = operation.success;
  const headers = budgetHeaders;
  if (schema === undefined && contentType === undefined) return { description, headers };
  const media = {
    schema:
      schema === undefined
        ? textOf(contentType)
        : components.use(schema, 'output', typeName(operation, 'Response')),
    ...(example === undefined ? {} : { example }),
  };
  const others = (otherContentTypes ?? []).map((type) => [
    type,
    {
      schema:
        type === 'application/json'
          ? components.use(jsonAlternative, 'output', typeName(operation, 'Json'))
          : { type: 'string' },
    },
  ]);
  const content = { [mediaTypeOf(contentType)]: media, ...Object.fromEntries(others) };
  return { description, headers, content };
}

/** Returns the schema of a text response. An event stream has no schema as a whole. */
function textOf(contentType: string | undefined): Json {
  return contentType === 'text/event-stream' ? {} : { type: 'string' };
}

/** The media type without its parameters, because clients compare parameters differently. */
function mediaTypeOf(contentType = 'application/json'): string {
  return contentType.replace(/;.*$/, '');
}

const statusOf = (code: ErrorCode): number => errorKinds[code].status;

/** The errors that the operation declares, and the errors common to its kind. */
function errorCodes(operation: AnyOperation): readonly ErrorCode[] {
  const { auth, body, errors } = operation;
  const codes = new Set<ErrorCode>(errors);
  if (auth === 'bearer' || auth === 'gateway') {
    codes.add('auth.missing_key').add('auth.invalid_key').add('auth.insufficient_permission');
    codes.add('integrity.forged_row');
  }
  if (auth === 'gateway') codes.add('auth.gateway_scope_required');
  if (auth === 'sidecar') codes.add('auth.sidecar_required').add('sidecar.revoked');
  codes.add('request.invalid');
  if (body !== undefined) codes.add('args.schema_invalid').add('request.body_too_large');
  return [...codes.add('rate_limited').add('internal.unexpected')];
}

interface ErrorShape {
  readonly schema: Json;
  readonly isDecision: boolean;
}

function errorResponse(
  status: number,
  codes: readonly ErrorCode[],
  { schema, isDecision }: ErrorShape,
): Json {
  const decision = isDecision ? { decision: 'deny' } : {};
  const retryAfter = {
    'Retry-After': { description: 'Seconds to wait.', schema: { type: 'integer' } },
  };
  return {
    description: codes.map((code) => `\`${code}\`: ${errorKinds[code].text}`).join('\n\n'),
    ...(status === 429 ? { headers: { ...budgetHeaders, ...retryAfter } } : {}),
    content: {
      'application/json': {
        schema,
        examples: Object.fromEntries(
          codes.map((code) => [
            code,
            { value: { ...decision, error: errorKinds[code].text, reason_code: code } },
          ]),
        ),
      },
    },
  };
}
