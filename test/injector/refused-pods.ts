import { confined, container, type PodCase, pod, withContext } from './pod-case.ts';

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

/** Pods that the guard refuses. */
export const refusedPods: readonly PodCase[] = [...podLevel, ...containerLevel];
