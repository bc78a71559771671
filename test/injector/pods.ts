import type { Pod } from '../../injector/pod/pod.ts';
import type { AdmissionCode } from '../../shared/errors/admission-error-kinds.ts';

type Json = Readonly<Record<string, unknown>>;

/** A new pod, and what webhook and policies must make of it. */
export interface PodCase {
  readonly title: string;
  readonly pod: Pod;
  /** Label of the namespace; default: `enabled`. */
  readonly namespace?: 'enabled' | 'required';
  /** False if the pod must stay as it is. */
  readonly isInjected?: false;
  /** The codes of the refusal, without repeats; default: the pod is admitted. */
  readonly refused?: readonly AdmissionCode[];
}

const confined = {
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

/** A pod whose container has this security context in addition to the usual one. */
function withContext(context: Json, spec: Json = {}): Pod {
  const containers = [container({ securityContext: { ...confined, ...context } })];
  return pod({ spec: { containers, ...spec } });
}

const tokenMount = {
  name: 'kube-api-access-x7k2p',
  mountPath: '/var/run/secrets/kubernetes.io/serviceaccount',
  readOnly: true,
};
const native = container({ name: 'metrics', restartPolicy: 'Always' });

const admitted: readonly PodCase[] = [
  { title: 'one container', pod: pod() },
  {
    title: 'several containers with ports, probes and volumes',
    pod: pod({
      spec: {
        containers: [
          container({
            ports: [{ containerPort: 80, protocol: 'TCP' }],
            livenessProbe: { httpGet: { path: '/', port: 80, scheme: 'HTTP' } },
            volumeMounts: [{ name: 'work', mountPath: '/work' }, tokenMount],
          }),
          container({ name: 'helper', command: ['helper'], args: ['--fast'] }),
        ],
        volumes: [
          { name: 'work', emptyDir: {} },
          { name: 'settings', configMap: { name: 'settings' } },
        ],
      },
    }),
  },
  {
    title: 'init containers, which start after the redirect',
    pod: pod({
      spec: { initContainers: [container({ name: 'clone' }), container({ name: 'build' })] },
    }),
  },
  { title: 'a native sidecar of its own', pod: pod({ spec: { initContainers: [native] } }) },
  {
    title: 'a pod of a Job',
    pod: pod({ labels: { 'job-name': 'nightly' }, spec: { restartPolicy: 'Never' } }),
  },
  { title: 'the label "true"', pod: pod({ labels: { 'sallyport.io/inject': 'true' } }) },
  {
    title: 'every annotation',
    pod: pod({
      annotations: {
        'sallyport.io/agent': '7',
        'sallyport.io/hold-time': '15000',
        'sallyport.io/cpu-request': '100m',
        'sallyport.io/cpu-limit': '2',
        'sallyport.io/memory-request': '200Mi',
        'sallyport.io/memory-limit': '1Gi',
      },
    }),
  },
  {
    title: 'trust variables of its own, which are replaced',
    pod: pod({
      spec: {
        containers: [
          container({
            env: [
              { name: 'HOME', value: '/work' },
              { name: 'SSL_CERT_FILE', value: '/etc/own.pem' },
              {
                name: 'NODE_EXTRA_CA_CERTS',
                valueFrom: { configMapKeyRef: { name: 'a', key: 'b' } },
              },
              { name: 'LATER', value: '$(HOME)/x' },
            ],
          }),
        ],
      },
    }),
  },
  {
    title: 'options of Java, which are kept',
    pod: pod({
      spec: {
        containers: [
          container({ env: [{ name: 'JAVA_TOOL_OPTIONS', value: '-Xmx256m' }] }),
          container({ name: 'empty', env: [{ name: 'JAVA_TOOL_OPTIONS' }] }),
          container({
            name: 'elsewhere',
            env: [
              {
                name: 'JAVA_TOOL_OPTIONS',
                valueFrom: { configMapKeyRef: { name: 'java', key: 'options' } },
              },
            ],
          }),
        ],
      },
    }),
  },
  {
    title: 'a container that runs as root without capabilities',
    pod: withContext({ runAsUser: 0, runAsNonRoot: false }),
  },
  {
    title: 'harmless capabilities',
    pod: withContext({ capabilities: { drop: ['ALL'], add: ['NET_BIND_SERVICE', 'CHOWN'] } }),
  },
  {
    title: 'user and group of the container instead of the pod',
    pod: withContext({ runAsUser: 2000, runAsGroup: 2000 }, { securityContext: {} }),
  },
  {
    title: 'safe sysctls and a seccomp profile',
    pod: pod({
      spec: {
        securityContext: {
          runAsUser: 1000,
          seccompProfile: { type: 'RuntimeDefault' },
          sysctls: [{ name: 'net.ipv4.ip_unprivileged_port_start', value: '0' }],
        },
      },
    }),
  },
  {
    title: 'a manifest that was read from the cluster, with outdated injected parts',
    pod: pod({
      spec: {
        initContainers: [
          container({ name: 'first' }),
          container({ name: 'sallyport-sidecar', image: 'registry.example/old:1' }),
        ],
        volumes: [{ name: 'sallyport-data', hostPath: { path: '/', type: '' } }],
      },
    }),
  },
  {
    title: 'a foreign volume at the path of the trust bundle, which is replaced',
    pod: pod({
      spec: {
        containers: [
          container({ volumeMounts: [{ name: 'own', mountPath: '/var/run/sallyport/trust' }] }),
        ],
        volumes: [{ name: 'own', emptyDir: {} }],
      },
    }),
  },
  {
    title: 'an exempt pod',
    pod: pod({ labels: { 'sallyport.io/inject': 'false' }, spec: { hostNetwork: true } }),
    isInjected: false,
  },
];

const podLevel: readonly PodCase[] = [
  {
    title: 'an exempt pod where the namespace requires injection',
    pod: pod({ labels: { 'sallyport.io/inject': 'false' } }),
    namespace: 'required',
    isInjected: false,
    refused: ['admission.exemption_refused'],
  },
  {
    title: 'another value of the label',
    pod: pod({ labels: { 'sallyport.io/inject': 'no' } }),
    refused: ['admission.label_invalid'],
  },
  {
    title: 'an annotation that Kubernetes would expand',
    pod: pod({ annotations: { 'sallyport.io/agent': '$(REDIS_URL)' } }),
    refused: ['admission.annotation_invalid'],
  },
  {
    title: 'a hold time and amounts in other units',
    pod: pod({
      annotations: { 'sallyport.io/hold-time': '10s', 'sallyport.io/memory-limit': 'lots' },
    }),
    refused: ['admission.annotation_invalid'],
  },
  {
    title: 'hostNetwork',
    pod: pod({ spec: { hostNetwork: true } }),
    isInjected: false,
    refused: ['admission.not_injected', 'admission.host_namespace'],
  },
  {
    title: 'hostPID',
    pod: pod({ spec: { hostPID: true } }),
    refused: ['admission.host_namespace'],
  },
  {
    title: 'hostIPC',
    pod: pod({ spec: { hostIPC: true } }),
    refused: ['admission.host_namespace'],
  },
  {
    title: 'a shared process namespace',
    pod: pod({ spec: { shareProcessNamespace: true } }),
    refused: ['admission.shared_processes'],
  },
  {
    title: 'Windows',
    pod: pod({ spec: { os: { name: 'windows' } } }),
    isInjected: false,
    refused: ['admission.not_injected', 'admission.windows'],
  },
  {
    title: 'a HostProcess container',
    pod: withContext({ windowsOptions: { hostProcess: true } }),
    refused: ['admission.windows'],
  },
  {
    title: 'the mirror of a static pod',
    pod: pod({ annotations: { 'kubernetes.io/config.mirror': 'a1b2' } }),
    isInjected: false,
    refused: ['admission.not_injected', 'admission.static_pod'],
  },
  {
    title: 'name servers of its own',
    pod: pod({ spec: { dnsPolicy: 'None', dnsConfig: { nameservers: ['192.0.2.53'] } } }),
    refused: ['admission.name_resolution'],
  },
  {
    title: 'search domains of its own',
    pod: pod({ spec: { dnsConfig: { searches: ['evil.example'] } } }),
    refused: ['admission.name_resolution'],
  },
  {
    title: 'host aliases',
    pod: pod({ spec: { hostAliases: [{ ip: '192.0.2.1', hostnames: ['api.example'] }] } }),
    refused: ['admission.name_resolution'],
  },
  {
    title: 'a directory of the node and a network file system',
    pod: pod({
      spec: {
        volumes: [
          { name: 'node', hostPath: { path: '/var/run', type: '' } },
          { name: 'share', nfs: { server: '192.0.2.9', path: '/' } },
          { name: 'fine', emptyDir: {} },
        ],
      },
    }),
    refused: ['admission.volume_type'],
  },
  {
    title: "a token with the sidecar's audience",
    pod: pod({
      spec: {
        volumes: [
          {
            name: 'stolen',
            projected: {
              defaultMode: 420,
              sources: [{ serviceAccountToken: { audience: 'sallyport', path: 't' } }],
            },
          },
        ],
      },
    }),
    refused: ['admission.sidecar_token'],
  },
  {
    title: "the Secret with the sidecar's Redis URL, as a volume",
    pod: pod({
      spec: {
        volumes: [
          { name: 'one', secret: { secretName: 'sallyport-redis', defaultMode: 420 } },
          {
            name: 'two',
            projected: { defaultMode: 420, sources: [{ secret: { name: 'sallyport-redis' } }] },
          },
        ],
      },
    }),
    refused: ['admission.sidecar_secret'],
  },
  {
    title: "the sidecar's uid for the pod",
    pod: pod({ spec: { securityContext: { runAsUser: 1337 } } }),
    refused: ['admission.sidecar_user'],
  },
  {
    title: "the sidecar's gid as a group of files",
    pod: pod({ spec: { securityContext: { runAsUser: 1000, fsGroup: 1337 } } }),
    refused: ['admission.sidecar_user'],
  },
  {
    title: "the sidecar's gid as a supplemental group",
    pod: pod({ spec: { securityContext: { runAsUser: 1000, supplementalGroups: [5, 1337] } } }),
    refused: ['admission.sidecar_user'],
  },
  {
    title: 'an unconfined pod',
    pod: pod({
      spec: { securityContext: { runAsUser: 1000, seccompProfile: { type: 'Unconfined' } } },
    }),
    refused: ['admission.unconfined'],
  },
  {
    title: 'an unconfined AppArmor profile as an annotation',
    pod: pod({
      annotations: { 'container.apparmor.security.beta.kubernetes.io/agent': 'unconfined' },
    }),
    refused: ['admission.unconfined'],
  },
  {
    title: 'a sysctl of the network',
    pod: pod({
      spec: {
        securityContext: {
          runAsUser: 1000,
          sysctls: [{ name: 'net.ipv4.conf.all.route_localnet', value: '1' }],
        },
      },
    }),
    refused: ['admission.sysctl'],
  },
];

const containerLevel: readonly PodCase[] = [
  {
    title: "the sidecar's uid for a container",
    pod: withContext({ runAsUser: 1337 }),
    refused: ['admission.sidecar_user'],
  },
  {
    title: "the sidecar's gid for an init container",
    pod: pod({
      spec: {
        initContainers: [
          container({ name: 'setup', securityContext: { ...confined, runAsGroup: 1337 } }),
        ],
      },
    }),
    refused: ['admission.sidecar_user'],
  },
  {
    title: 'no user, so that the image chooses',
    pod: pod({ spec: { securityContext: {} } }),
    refused: ['admission.user_missing'],
  },
  {
    title: 'no security context at all',
    pod: pod({
      spec: { containers: [{ name: 'agent', image: 'registry.example/agent:1' }] },
    }),
    refused: ['admission.privilege_escalation', 'admission.capabilities'],
  },
  {
    title: 'a privileged container',
    pod: withContext({ privileged: true, allowPrivilegeEscalation: true }),
    refused: ['admission.privileged', 'admission.privilege_escalation'],
  },
  {
    title: 'capabilities that change the network',
    pod: withContext({ capabilities: { drop: ['ALL'], add: ['NET_ADMIN', 'NET_RAW'] } }),
    refused: ['admission.capabilities'],
  },
  {
    title: 'the capability to change the user',
    pod: withContext({ capabilities: { drop: ['ALL'], add: ['SETUID'] } }),
    refused: ['admission.capabilities'],
  },
  {
    title: 'only some capabilities dropped',
    pod: withContext({ capabilities: { drop: ['NET_RAW', 'SETUID', 'SETGID'] } }),
    refused: ['admission.capabilities'],
  },
  {
    title: 'an unmasked /proc',
    pod: withContext({ procMount: 'Unmasked' }),
    refused: ['admission.proc_mount'],
  },
  {
    title: 'unconfined profiles of a container',
    pod: withContext({ appArmorProfile: { type: 'Unconfined' } }),
    refused: ['admission.unconfined'],
  },
  {
    title: 'an SELinux type without confinement',
    pod: withContext({ seLinuxOptions: { type: 'spc_t' } }),
    refused: ['admission.unconfined'],
  },
  {
    title: "a mount of the sidecar's keys and token",
    pod: pod({
      spec: {
        containers: [
          container({
            volumeMounts: [
              { name: 'sallyport-data', mountPath: '/steal' },
              { name: 'sallyport-token', mountPath: '/token' },
            ],
          }),
        ],
      },
    }),
    refused: ['admission.sidecar_volume'],
  },
  {
    title: 'a writable mount of the trust bundle',
    pod: pod({
      spec: {
        containers: [
          container({ volumeMounts: [{ name: 'sallyport-trust', mountPath: '/trust' }] }),
        ],
      },
    }),
    refused: ['admission.sidecar_volume'],
  },
  {
    title: "the Secret with the sidecar's Redis URL, as variables",
    pod: pod({
      spec: {
        containers: [
          container({
            env: [
              {
                name: 'URL',
                valueFrom: { secretKeyRef: { name: 'sallyport-redis', key: 'redis-url' } },
              },
            ],
          }),
          container({ name: 'other', envFrom: [{ secretRef: { name: 'sallyport-redis' } }] }),
        ],
      },
    }),
    refused: ['admission.sidecar_secret'],
  },
  {
    title: 'a container that takes the name of the sidecar',
    pod: pod({ spec: { containers: [container(), container({ name: 'sallyport-helper' })] } }),
    refused: ['admission.name_reserved'],
  },
  {
    title: 'a probe that makes the node connect to another host',
    pod: pod({
      spec: {
        containers: [
          container({
            readinessProbe: { httpGet: { host: 'evil.example', port: 80, scheme: 'HTTP' } },
          }),
        ],
      },
    }),
    refused: ['admission.probe_host'],
  },
  {
    title: 'a lifecycle hook that makes the node connect to another host',
    pod: pod({
      spec: {
        containers: [
          container({
            lifecycle: { preStop: { httpGet: { host: '192.0.2.1', port: 80, scheme: 'HTTP' } } },
          }),
        ],
      },
    }),
    refused: ['admission.probe_host'],
  },
];

/** Pods as the API server passes them on, after its defaults. */
export const podCases: readonly PodCase[] = [...admitted, ...podLevel, ...containerLevel];
