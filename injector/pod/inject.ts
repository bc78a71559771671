import { injectedContainers, injectedVolumes } from './containers.ts';
import type { Injection } from './injection.ts';
import { injectLabel, isInjectedContainer, isInjectedVolume, mirrorAnnotation } from './names.ts';
import { sidecarOptions } from './options.ts';
import type { Pod } from './pod.ts';
import { withTrust } from './trust.ts';

/**
 * Returns the pod with the sidecar, or the pod itself if nothing may be injected into it.
 * Idempotent, because the API server calls again after other webhooks have changed the pod.
 */
export function injectPod(pod: Pod, injection: Injection): Pod {
  if (!mayInject(pod)) return pod;
  const { spec } = pod;
  const volumes = (spec.volumes ?? []).filter((volume) => !isInjectedVolume(volume));
  const initContainers = (spec.initContainers ?? []).filter((one) => !isInjectedContainer(one));
  return {
    ...pod,
    spec: {
      ...spec,
      volumes: [...volumes, ...injectedVolumes(injection)],
      initContainers: [
        ...injectedContainers(injection, sidecarOptions(pod, injection)),
        ...initContainers.map(withTrust),
      ],
      containers: spec.containers.map(withTrust),
    },
  };
}

export function isExempt(pod: Pod): boolean {
  return pod.metadata?.labels?.[injectLabel] === 'false';
}

/**
 * In the node's network namespace the redirect would apply to the node. A mirror pod cannot be
 * changed, and Windows has no such redirect. The guard refuses these pods.
 */
function mayInject(pod: Pod): boolean {
  const { hostNetwork, os } = pod.spec;
  const isMirror = pod.metadata?.annotations?.[mirrorAnnotation] !== undefined;
  return !isExempt(pod) && hostNetwork !== true && os?.name !== 'windows' && !isMirror;
}
