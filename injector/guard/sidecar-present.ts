import { isDeepStrictEqual } from 'node:util';
import { injectedContainers, injectedVolumes } from '../pod/containers.ts';
import type { Injection } from '../pod/injection.ts';
import { sidecarOptions } from '../pod/options.ts';
import type { Container, Pod, VolumeMount } from '../pod/pod.ts';

/** How the guard compares the injected containers of a pod; the chart writes it into its policies. */
export const comparison = {
  /**
   * Fields that must have the injected values. Unknown fields are refused, because they may change
   * what runs.
   */
  compared: ['name', 'image', 'args', 'restartPolicy', 'env'],
  /** Fields that do not affect the protection, and that Kubernetes or its administrators fill in. */
  tolerated: [
    'imagePullPolicy',
    'livenessProbe',
    'ports',
    'resources',
    'startupProbe',
    'terminationMessagePath',
    'terminationMessagePolicy',
  ],
  /** Kubernetes mounts the token of the pod's service account into all containers. */
  serviceAccountPath: '/var/run/secrets/kubernetes.io/serviceaccount',
} as const;

/**
 * True if the pod starts with the injected containers and has their volumes. A webhook that runs
 * after the injection could have changed them.
 */
export function hasSidecar(pod: Pod, injection: Injection): boolean {
  const { initContainers = [], volumes = [] } = pod.spec;
  const expected = injectedContainers(injection, sidecarOptions(pod, injection));
  return (
    expected.every((container, index) => isSame(initContainers[index], container)) &&
    injectedVolumes(injection).every((volume) =>
      volumes.some((one) => one.name === volume.name && isDeepStrictEqual(one, volume)),
    )
  );
}

function isSame(actual: Container | undefined, expected: Container): boolean {
  if (actual === undefined) return false;
  const { compared, tolerated } = comparison;
  const known: readonly string[] = [...compared, ...tolerated, 'securityContext', 'volumeMounts'];
  return (
    compared.every((field) => isDeepStrictEqual(actual[field], expected[field])) &&
    Object.keys(actual).every((field) => known.includes(field)) &&
    isSameContext(actual.securityContext, expected.securityContext) &&
    isDeepStrictEqual(mountsOf(actual), mountsOf(expected))
  );
}

function isSameContext(
  { procMount = 'Default', ...actual }: NonNullable<Container['securityContext']> = {},
  expected: Container['securityContext'],
): boolean {
  return procMount === 'Default' && isDeepStrictEqual(actual, expected);
}

function mountsOf({ volumeMounts = [] }: Container): readonly VolumeMount[] {
  return volumeMounts.filter(({ mountPath }) => mountPath !== comparison.serviceAccountPath);
}
