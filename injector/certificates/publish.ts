import type { KubernetesApi } from '../kubernetes/api.ts';

interface WebhookConfiguration {
  readonly metadata: { readonly resourceVersion: string };
  readonly webhooks?: readonly { readonly clientConfig: { readonly caBundle?: string } }[];
}

/** Resources of `admissionregistration.k8s.io/v1`. */
export interface WebhookConfigurations {
  readonly mutating: string;
  readonly validating: string;
}

/** Makes the API server trust exactly these authorities for the webhooks of both configurations. */
export async function publishAuthorities(
  api: KubernetesApi,
  { mutating, validating }: WebhookConfigurations,
  authorities: readonly string[],
): Promise<void> {
  const caBundle = Buffer.from(authorities.join('')).toString('base64');
  await publish(api, `mutatingwebhookconfigurations/${mutating}`, caBundle);
  await publish(api, `validatingwebhookconfigurations/${validating}`, caBundle);
}

async function publish(api: KubernetesApi, resource: string, caBundle: string): Promise<void> {
  const path = `/apis/admissionregistration.k8s.io/v1/${resource}`;
  const { metadata, webhooks = [] } = await api.call<WebhookConfiguration>({ method: 'GET', path });
  const outdated = webhooks.flatMap(({ clientConfig }, index) =>
    clientConfig.caBundle === caBundle ? [] : [index],
  );
  if (outdated.length === 0) return;
  await api.call({
    method: 'PATCH',
    path,
    body: [
      { op: 'test', path: '/metadata/resourceVersion', value: metadata.resourceVersion },
      ...outdated.map((index) => ({
        op: 'add',
        path: `/webhooks/${index}/clientConfig/caBundle`,
        value: caBundle,
      })),
    ],
  });
}
