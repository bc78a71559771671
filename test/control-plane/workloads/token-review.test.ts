import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { refusalOf } from '../../support/control-plane/gateway.ts';
import { billingPod } from '../../support/control-plane/oidc-issuer.ts';
import { startWorkloadStage, type WorkloadStage } from './stage.ts';

const path = '/apis/authentication.k8s.io/v1/tokenreviews';

let stage: WorkloadStage;
/** The uids of the pods that exist according to the simulated API server. */
const pods = new Set<string>([billingPod.uid]);
beforeAll(async () => {
  stage = await startWorkloadStage({
    setting: (issuer) => {
      const token_file = join(issuer.folder, 'reviewer-token');
      writeFileSync(token_file, 'reviewer');
      const token_review = { url: issuer.issuer, ca_file: issuer.caFile, token_file };
      return { token_review };
    },
  });
  await stage.put('refunds');
});
afterAll(() => stage.close());
beforeEach(() => review());

interface Status {
  readonly authenticated?: boolean | undefined;
  readonly [field: string]: unknown;
}

/** Makes the issuer review tokens as the API server does; `change` alters the status that it returns. */
function review(change: (status: Status) => Status = (status) => status): void {
  stage.issuer.behave(path, (req, res, body) => {
    const { spec, kind, apiVersion } = JSON.parse(body) as {
      readonly kind: string;
      readonly apiVersion: string;
      readonly spec: { readonly token: string; readonly audiences: readonly string[] };
    };
    if (req.headers.authorization !== 'Bearer reviewer' || kind !== 'TokenReview') {
      res.writeHead(401).end('{}');
      return;
    }
    const claims = JSON.parse(
      Buffer.from(spec.token.split('.')[1] ?? '', 'base64url').toString('utf8'),
    );
    const { uid } = claims['kubernetes.io'].pod;
    const status: Status = pods.has(uid)
      ? {
          authenticated: true,
          audiences: spec.audiences.filter((one) => claims.aud.includes(one)),
          user: {
            username: claims.sub,
            extra: { 'authentication.kubernetes.io/pod-uid': [uid] },
          },
        }
      : { authenticated: false, error: 'pod has been deleted' };
    res.writeHead(201, { 'content-type': 'application/json' });
    res.end(JSON.stringify({ apiVersion, kind, status: change(status) }));
  });
}

const enrol = async () => stage.enrol(await stage.issuer.token());

describe('an issuer with a token review', () => {
  it('enrols a pod that exists', async () => {
    expect(await enrol()).toHaveProperty('sidecar_id');
  });

  it('refuses the valid token of a deleted pod', async () => {
    pods.delete(billingPod.uid);
    expect((await refusalOf(enrol())).code).toBe('workload.token_rejected');
    pods.add(billingPod.uid);
  });

  it.each([
    ['is not authenticated', { authenticated: false }],
    ['does not say whether it is authenticated', { authenticated: undefined }],
    ['has another audience', { audiences: ['vault'] }],
    ['has no audience', { audiences: undefined }],
    ['is of another user', { user: { username: 'system:serviceaccount:billing:default' } }],
    [
      'is of another pod',
      {
        user: {
          username: 'system:serviceaccount:billing:refund-agent',
          extra: { 'authentication.kubernetes.io/pod-uid': ['another'] },
        },
      },
    ],
    ['is of no pod', { user: { username: 'system:serviceaccount:billing:refund-agent' } }],
  ])('refuses a token that, according to the review, %s', async (_what, change) => {
    review((status) => ({ ...status, ...change }));
    expect((await refusalOf(enrol())).code).toBe('workload.token_rejected');
  });

  it.each([
    ['status 403', 403, '{}'],
    ['a text', 200, 'ok'],
    ['no status', 201, '{"kind":"TokenReview"}'],
    ['a redirect', 302, ''],
  ])(
    'refuses an enrolment with a retryable error if the response to the review is %s',
    async (_what, status, body) => {
      stage.issuer.behave(path, (_req, res) => res.writeHead(status, { location: '/x' }).end(body));
      const error = await refusalOf(enrol());
      expect(error.code).toBe('workload.review_unavailable');
      expect(error.details).toMatchObject({ status: 503 });
    },
  );

  it('sends no review for a token with an invalid signature', async () => {
    const before = stage.issuer.asked.length;
    const [head, body] = (await stage.issuer.token()).split('.');
    const forged = `${head}.${body}.${Buffer.alloc(256).toString('base64url')}`;
    expect((await refusalOf(stage.enrol(forged))).code).toBe('workload.signature_invalid');
    expect(stage.issuer.asked.length).toBe(before);
  });
});
