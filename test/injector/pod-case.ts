import type { Pod } from '../../injector/pod/pod.ts';
import type { AdmissionCode } from '../../shared/errors/admission-error-kinds.ts';

type Json = Readonly<Record<string, unknown>>;

/** A new pod, and the result that both the webhook and the policies must produce for it. */
export interface PodCase {
  readonly title: string;
  readonly pod: Pod;
  /** Label of the namespace; default: `enabled`. */
  readonly namespace?: 'enabled' | 'required';
  /** False if the pod must not be changed. */
  readonly isInjected?: false;
  /** The codes of the refusal, without duplicates. Default: the pod is admitted. */
  readonly refused?: readonly AdmissionCode[];
}

export const confined = {
  allowPrivilegeEscalation: false,
  runAsNonRoot: true,
  capabilities: { drop: ['ALL'] },
};

export function container(fields: Json = {}): Pod['spec']['containers'][number] {
  const { name = 'agent', securityContext = confined, ...rest } = fields;
  return {
    name: String(name),
    image: 'registry.example/agent:1',
    resources: {},
    securityContext: securityContext as Json,
    ...rest,
  };
}

interface PodFields {
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly spec?: Json;
}

export function pod({ labels, annotations, spec = {} }: PodFields = {}): Pod {
  const metadata = {
    name: 'agent',
    namespace: 'agents',
    ...(labels === undefined ? {} : { labels }),
    ...(annotations === undefined ? {} : { annotations }),
  };
  const securityContext = { runAsUser: 1000, runAsGroup: 1000 };
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata,
    spec: { containers: [container()], securityContext, restartPolicy: 'Always', ...spec },
  };
}

/** Returns a pod whose container has this security context in addition to the usual one. */
export function withContext(context: Json, spec: Json = {}): Pod {
  const containers = [container({ securityContext: { ...confined, ...context } })];
  return pod({ spec: { containers, ...spec } });
}
