import type { Injection } from './injection.ts';
import { annotations, containers, paths, volumes } from './names.ts';
import type { SidecarOptions } from './options.ts';
import type { Container, Texts, Volume } from './pod.ts';

const adminPort = 8182;
/** Differs from the sidecar's user, to whom the redirect does not apply. */
const validatorUid = 65_534;
const tokenSeconds = 600;

const initResources = {
  requests: { cpu: '10m', memory: '64Mi' },
  limits: { memory: '128Mi' },
};

/**
 * The injected init containers, in the order in which they start. The redirect is first, so that no
 * container ever has another way out. The sidecar is second and runs as long as the pod. The last
 * one checks that redirected traffic reaches the sidecar; Kubernetes starts it when the sidecar's
 * startup probe succeeds.
 */
export function injectedContainers(
  injection: Injection,
  options: SidecarOptions,
): readonly Container[] {
  return [networkContainer(injection), sidecar(injection, options), validator(injection)];
}

function networkContainer(injection: Injection): Container {
  return {
    name: containers.network,
    ...image(injection),
    args: ['sallyport', 'network', 'apply', ...redirectOptions(injection)],
    // A user other than root would lose the capability when it executes a program.
    securityContext: {
      runAsUser: 0,
      runAsGroup: 0,
      runAsNonRoot: false,
      ...confined,
      capabilities: { drop: ['ALL'], add: ['NET_ADMIN'] },
    },
    resources: initResources,
    terminationMessagePolicy: 'FallbackToLogsOnError',
  };
}

function validator(injection: Injection): Container {
  return {
    name: containers.validate,
    ...image(injection),
    args: ['sallyport', 'network', 'validate', ...redirectOptions(injection)],
    securityContext: unprivileged(validatorUid),
    resources: initResources,
    terminationMessagePolicy: 'FallbackToLogsOnError',
  };
}

/** Options that `apply` and `validate` must agree on. */
function redirectOptions({ uid, transparentPort, dnsPort }: Injection): string[] {
  const ports = ['--port', String(transparentPort), '--dns-port', String(dnsPort)];
  return ['--uid', String(uid), ...ports];
}

function sidecar(injection: Injection, options: SidecarOptions): Container {
  const probe = (path: string) => ({ httpGet: { path, port: adminPort, scheme: 'HTTP' } });
  return {
    name: containers.sidecar,
    ...image(injection),
    args: ['sidecar'],
    restartPolicy: 'Always',
    env: sidecarEnvironment(injection, options),
    ports: [{ name: 'sallyport-admin', containerPort: adminPort, protocol: 'TCP' }],
    securityContext: unprivileged(injection.uid),
    resources: options.resources,
    startupProbe: {
      ...probe('/readyz'),
      periodSeconds: 1,
      timeoutSeconds: 2,
      successThreshold: 1,
      failureThreshold: 300,
    },
    livenessProbe: {
      ...probe('/healthz'),
      periodSeconds: 10,
      timeoutSeconds: 5,
      successThreshold: 1,
      failureThreshold: 6,
    },
    terminationMessagePolicy: 'FallbackToLogsOnError',
    volumeMounts: [
      { name: volumes.data, mountPath: paths.data },
      { name: volumes.token, mountPath: paths.token, readOnly: true },
      { name: volumes.trust, mountPath: paths.trust },
    ],
  };
}

function sidecarEnvironment(
  { transparentPort, dnsPort, controlPlaneUrl, redis, settings }: Injection,
  { holdTime }: SidecarOptions,
): NonNullable<Container['env']> {
  const values = {
    SALLYPORT_PROXY_ADMIN_PORT: String(adminPort),
    SALLYPORT_DATA_DIR: paths.data,
    SALLYPORT_TRUST_BUNDLE_DIRECTORY: paths.trust,
    SALLYPORT_TRANSPARENT_PORT: String(transparentPort),
    SALLYPORT_DNS_PORT: String(dnsPort),
    SALLYPORT_WORKLOAD_TOKEN_FILE: `${paths.token}/token`,
    SALLYPORT_CONTROL_PLANE_URL: controlPlaneUrl,
    SALLYPORT_HOLD_MS: holdTime,
  };
  return [
    ...variables(values),
    // The kubelet's probes and Prometheus reach the admin port at the pod's address.
    fieldOfPod('SALLYPORT_PROXY_ADMIN_HOST', 'status.podIP'),
    fieldOfPod('SALLYPORT_AGENT_ID', `metadata.annotations['${annotations.agent}']`),
    'url' in redis
      ? { name: 'REDIS_URL', value: redis.url }
      : {
          name: 'REDIS_URL',
          valueFrom: { secretKeyRef: { name: redis.secretName, key: redis.secretKey } },
        },
    ...variables(settings),
  ];
}

function fieldOfPod(name: string, fieldPath: string) {
  return { name, valueFrom: { fieldRef: { apiVersion: 'v1', fieldPath } } };
}

function variables(values: Texts): { readonly name: string; readonly value: string }[] {
  return Object.entries(values)
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([name, value]) => ({ name, value }));
}

const confined = {
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  seccompProfile: { type: 'RuntimeDefault' },
} as const;

function unprivileged(uid: number): NonNullable<Container['securityContext']> {
  const user = { runAsUser: uid, runAsGroup: uid, runAsNonRoot: true };
  return { ...user, ...confined, capabilities: { drop: ['ALL'] } };
}

function image({ image: name, imagePullPolicy }: Pick<Injection, 'image' | 'imagePullPolicy'>) {
  return { image: name, imagePullPolicy };
}

/** The volumes of the injected containers. All containers of the pod mount the trust bundle. */
export function injectedVolumes({ audience }: Injection): readonly Volume[] {
  const serviceAccountToken = { audience, expirationSeconds: tokenSeconds, path: 'token' };
  return [
    { name: volumes.data, emptyDir: {} },
    {
      name: volumes.token,
      projected: { defaultMode: 0o644, sources: [{ serviceAccountToken }] as const },
    },
    { name: volumes.trust, emptyDir: { medium: 'Memory', sizeLimit: '4Mi' } },
  ];
}
