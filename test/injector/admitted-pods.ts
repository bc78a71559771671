import { container, type PodCase, pod, withContext } from './pod-case.ts';

const tokenMount = {
  name: 'kube-api-access-x7k2p',
  mountPath: '/var/run/secrets/kubernetes.io/serviceaccount',
  readOnly: true,
};
const native = container({ name: 'metrics', restartPolicy: 'Always' });

/** Pods that the guard admits after their injection. */
export const admittedPods: readonly PodCase[] = [
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
