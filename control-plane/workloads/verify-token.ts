import { decodeJwt, errors, jwtVerify } from 'jose';
import { z } from 'zod';
import type { ErrorCode } from '../../shared/errors/error-kinds.ts';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { Services } from '../core/services.ts';
import type { OidcIssuer } from '../platform/config/issuer-settings.ts';
import { IssuerKeys } from './issuer-keys.ts';

/** The pod that a verified token is bound to. */
export interface Workload {
  readonly issuer: OidcIssuer;
  readonly audiences: readonly string[];
  readonly namespace: string;
  readonly serviceAccount: string;
  readonly podName: string;
  readonly podUid: string;
}

/**
 * Verifies a token: issuer, signature and times. The caller compares the audience, which depends on
 * the enrolment rule. Throws a code of `workload.*`.
 */
export type VerifyToken = (token: string) => Promise<Workload>;

const algorithms = ['RS256', 'ES256'];
const clockToleranceSeconds = 10;
/** The kubelet renews a projected token long before this age. */
const ageSecondsMax = 3_600;

type VerifierServices = Pick<Services, 'clock' | 'log' | 'upstream'> & {
  readonly config: Pick<Services['config'], 'oidcIssuers'>;
};

export function createTokenVerifier(services: VerifierServices): VerifyToken {
  // Created at the first use, because routes are also listed without services.
  let known: ReturnType<typeof knownIssuers> | undefined;
  return async (token) => {
    known ??= knownIssuers(services);
    const { iss } = unverifiedClaims(token);
    const found = typeof iss === 'string' ? known.get(iss) : undefined;
    if (found === undefined) throw new GatewayError('workload.issuer_unknown');
    const { issuer, keys } = found;
    const { payload } = await jwtVerify(token, keys.keyOf, {
      algorithms,
      issuer: issuer.issuer,
      clockTolerance: clockToleranceSeconds,
      maxTokenAge: ageSecondsMax,
      currentDate: new Date(services.clock.now()),
      requiredClaims: ['aud', 'exp', 'iat', 'nbf', 'sub'],
    }).catch((error: unknown) => {
      throw refused(error);
    });
    return { issuer, ...workloadOf(payload) };
  };
}

function knownIssuers({ config, clock, log, upstream: { guard } }: VerifierServices) {
  const entry = (issuer: OidcIssuer) => ({
    issuer,
    keys: new IssuerKeys({ issuer, clock, guard, log }),
  });
  return new Map(config.oidcIssuers.map((issuer) => [issuer.issuer, entry(issuer)]));
}

function unverifiedClaims(token: string) {
  try {
    return decodeJwt(token);
  } catch (cause) {
    throw new GatewayError('workload.token_malformed', { cause });
  }
}

/** Converts an error of `jwtVerify`. Every unknown error counts as an invalid signature. */
function refused(error: unknown): GatewayError {
  if (error instanceof GatewayError) return error;
  return new GatewayError(reasonOf(error), { cause: error });
}

function reasonOf(error: unknown): ErrorCode {
  if (error instanceof errors.JWTExpired) return 'workload.token_expired';
  if (error instanceof errors.JWTClaimValidationFailed) {
    const isEarly = error.reason === 'check_failed' && ['nbf', 'iat'].includes(error.claim);
    return isEarly ? 'workload.token_not_yet_valid' : 'workload.claims_invalid';
  }
  if (error instanceof errors.JOSEAlgNotAllowed) return 'workload.algorithm_refused';
  if (error instanceof errors.JWKSNoMatchingKey) return 'workload.key_unknown';
  if (error instanceof errors.JWKSMultipleMatchingKeys) return 'workload.key_unknown';
  const isMalformed = [errors.JWSInvalid, errors.JWTInvalid, errors.JOSENotSupported];
  return isMalformed.some((kind) => error instanceof kind)
    ? 'workload.token_malformed'
    : 'workload.signature_invalid';
}

const text = z.string().min(1).max(253);
const named = z.looseObject({ name: text, uid: text });

/** The claims of a bound service account token (Kubernetes, "Bound service account tokens"). */
const claimsForm = z.looseObject({
  aud: z.union([z.string(), z.array(z.string()).min(1)]),
  sub: z.string(),
  'kubernetes.io': z.looseObject({
    namespace: text,
    serviceaccount: named,
    pod: named.optional(),
  }),
});

function workloadOf(payload: object): Omit<Workload, 'issuer'> {
  const read = claimsForm.safeParse(payload);
  if (!read.success) throw new GatewayError('workload.claims_invalid');
  const { aud, sub } = read.data;
  const { namespace, serviceaccount, pod } = read.data['kubernetes.io'];
  if (sub !== `system:serviceaccount:${namespace}:${serviceaccount.name}`) {
    throw new GatewayError('workload.claims_invalid', {
      message: 'The sub of the workload token differs from its kubernetes.io claim.',
    });
  }
  if (pod === undefined) throw new GatewayError('workload.pod_unbound');
  return {
    audiences: [aud].flat(),
    namespace,
    serviceAccount: serviceaccount.name,
    podName: pod.name,
    podUid: pod.uid,
  };
}
