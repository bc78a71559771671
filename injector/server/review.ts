import { z } from 'zod';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { PodRequest } from '../guard/guard.ts';
import type { Pod } from '../pod/pod.ts';

const loose = z.looseObject({});
const pod = z.looseObject({
  metadata: loose.optional(),
  spec: z.looseObject({ containers: z.array(z.looseObject({ name: z.string() })) }),
});

/** `AdmissionReview` of `admission.k8s.io/v1`, as the API server sends it. */
const schema = z.looseObject({
  apiVersion: z.literal('admission.k8s.io/v1'),
  kind: z.literal('AdmissionReview'),
  request: z.looseObject({
    uid: z.string().min(1).max(128),
    resource: z.looseObject({ group: z.literal(''), resource: z.literal('pods') }),
    subResource: z.string().optional(),
    operation: z.enum(['CREATE', 'UPDATE', 'DELETE', 'CONNECT']),
    namespace: z.string().optional(),
    name: z.string().optional(),
    object: z.looseObject({ container: z.string().optional() }).nullish(),
    oldObject: loose.nullish(),
  }),
});

export interface Review {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  readonly request: PodRequest;
}

/** Reads a review. Refuses requests for which the chart registers no webhook. */
export function parseReview(text: string): Review {
  const { uid, namespace = '', name = '', ...request } = parse(schema, readJson(text)).request;
  return { uid, namespace, name, request: podRequest(request) };
}

type RawRequest = Pick<
  z.output<typeof schema>['request'],
  'operation' | 'subResource' | 'object' | 'oldObject'
>;

function podRequest({ operation, subResource, object, oldObject }: RawRequest): PodRequest {
  switch (`${operation} ${subResource ?? ''}`) {
    case 'CREATE ':
      return { kind: 'create', pod: asPod(object) };
    case 'UPDATE ':
      return { kind: 'update', pod: asPod(object), before: asPod(oldObject) };
    case 'UPDATE ephemeralcontainers':
      return { kind: 'debug', pod: asPod(object) };
    case 'CONNECT exec':
    case 'CONNECT attach':
      return { kind: 'exec', container: object?.container ?? '' };
    default:
      throw invalid(`${operation} of pods/${subResource ?? ''} is not expected here`);
  }
}

/** Checks only the members on which lists depend, because the API server has validated the pod. */
function asPod(value: unknown): Pod {
  return parse(pod, value) as unknown as Pod;
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new GatewayError('request.invalid', { message: 'The body is not JSON.', cause });
  }
}

function parse<Shape extends z.ZodType>(shape: Shape, value: unknown): z.output<Shape> {
  const parsed = shape.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw invalid(`${issue?.path.join('.')}: ${issue?.message}`);
}

function invalid(reason: string): GatewayError {
  return new GatewayError('request.invalid', {
    message: `Not an AdmissionReview (admission.k8s.io/v1) of pods: ${reason}.`,
  });
}
