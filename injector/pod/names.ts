/**
 * On a namespace: `enabled` or `required`. On a pod: `true` or `false`; `false` exempts the pod
 * where the namespace is `enabled`.
 */
export const injectLabel = 'sallyport.io/inject';

export const annotations = {
  agent: 'sallyport.io/agent',
  holdTime: 'sallyport.io/hold-time',
  cpuRequest: 'sallyport.io/cpu-request',
  cpuLimit: 'sallyport.io/cpu-limit',
  memoryRequest: 'sallyport.io/memory-request',
  memoryLimit: 'sallyport.io/memory-limit',
} as const;

/**
 * The kubelet sets this annotation on mirror pods. A mirror pod represents a static pod, which the
 * kubelet started without asking the API server.
 */
export const mirrorAnnotation = 'kubernetes.io/config.mirror';

/** Names with this prefix belong to injected containers. */
export const reservedPrefix = 'sallyport-';

/** The injected containers, in the order in which they start. */
export const containers = {
  network: 'sallyport-network',
  sidecar: 'sallyport-sidecar',
  validate: 'sallyport-validate',
} as const;

export const volumes = {
  data: 'sallyport-data',
  token: 'sallyport-token',
  trust: 'sallyport-trust',
} as const;

export const paths = {
  data: '/var/lib/sallyport',
  token: '/var/run/secrets/sallyport',
  trust: '/var/run/sallyport/trust',
} as const;

const containerNames: readonly string[] = Object.values(containers);
const volumeNames: readonly string[] = Object.values(volumes);

export function isInjectedContainer({ name }: { readonly name: string }): boolean {
  return containerNames.includes(name);
}

export function isInjectedVolume({ name }: { readonly name: string }): boolean {
  return volumeNames.includes(name);
}
