import { z } from 'zod';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { Services } from '../core/services.ts';
import { fetchJson } from './fetch-json.ts';
import type { Workload } from './verify-token.ts';

const apiVersion = 'authentication.k8s.io/v1';
const podUidExtra = 'authentication.kubernetes.io/pod-uid';

const reviewForm = z.looseObject({
  status: z.looseObject({
    authenticated: z.boolean().optional(),
    audiences: z.array(z.string()).optional(),
    user: z
      .looseObject({
        username: z.string().optional(),
        extra: z.record(z.string(), z.array(z.string())).optional(),
      })
      .optional(),
  }),
});

/**
 * Asks the API server, if the issuer has one configured, whether a verified token is still valid.
 * The API server rejects the tokens of deleted pods and service accounts.
 */
export async function reviewToken(
  { log }: Pick<Services, 'log'>,
  { issuer, namespace, serviceAccount, podUid }: Workload,
  { token, audience }: { readonly token: string; readonly audience: string },
): Promise<void> {
  if (issuer.tokenReview === undefined) return;
  const { url, caFile, tokenFile } = issuer.tokenReview;
  const body = { apiVersion, kind: 'TokenReview', spec: { token, audiences: [audience] } };
  const answer = await fetchJson({
    url: `${url}/apis/${apiVersion}/tokenreviews`,
    body,
    caFile,
    tokenFile,
  })
    .then((read) => reviewForm.parse(read))
    .catch((cause: unknown) => {
      log.warn(
        { err: cause, issuer: issuer.issuer, reason_code: 'workload.review_unavailable' },
        'a workload token could not be reviewed',
      );
      throw new GatewayError('workload.review_unavailable', { cause });
    });
  const { authenticated, audiences, user } = answer.status;
  const isSame =
    authenticated === true &&
    audiences?.includes(audience) === true &&
    user?.username === `system:serviceaccount:${namespace}:${serviceAccount}` &&
    user.extra?.[podUidExtra]?.includes(podUid) === true;
  if (!isSame) throw new GatewayError('workload.token_rejected');
}
