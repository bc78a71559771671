import type { Values } from '../support/charts/helm.ts';

/** The values file in charts/sallyport/ci that a case extends. */
type Base = 'external' | 'evaluation' | 'production';

interface Case {
  readonly title: string;
  readonly base: Base;
  readonly values: Values;
  /** The oldest Kubernetes version that supports the case. Default: the oldest supported version. */
  readonly since?: string;
}

const image = 'registry.example:5000/team/sallyport';
const vaultKey = 'vault:https://vault.example:8200/v1/transit/keys/sallyport';

/** Combinations of values that the chart renders for every supported version of Kubernetes. */
export const cases: readonly Case[] = [
  { title: 'external stores', base: 'external', values: {} },
  { title: 'evaluation', base: 'evaluation', values: {} },
  { title: 'every production option', base: 'production', values: {} },
  { title: 'no injection', base: 'external', values: { injector: { enabled: false } } },
  {
    title: 'injection by policy',
    base: 'external',
    values: { injector: { mode: 'policy' } },
    since: '1.36',
  },
  {
    title: 'injection by policy in production',
    base: 'production',
    values: { injector: { mode: 'policy' } },
    since: '1.36',
  },
  {
    title: 'evaluation without injection',
    base: 'evaluation',
    values: { injector: { enabled: false } },
  },
  {
    title: 'one replica without a disruption budget',
    base: 'external',
    values: { controlPlane: { replicas: 1, podDisruptionBudget: { enabled: false } } },
  },
  {
    title: 'a disruption budget in percent',
    base: 'external',
    values: { controlPlane: { replicas: 8, podDisruptionBudget: { maxUnavailable: '25%' } } },
  },
  {
    title: 'an image by tag',
    base: 'external',
    values: { image: { repository: image, tag: 'v1.2.3' } },
  },
  {
    title: 'a rotation of the master key',
    base: 'external',
    values: { masterKey: { key: 'master-key-2', previousKey: 'master-key' } },
  },
  {
    title: 'a move of the master key to Vault',
    base: 'external',
    values: {
      masterKey: { previousKey: 'master-key', kms: { key: vaultKey, existingSecret: 'vault' } },
    },
  },
  {
    title: 'a move of the master key away from Vault',
    base: 'external',
    values: { masterKey: { kms: { key: vaultKey, existingSecret: 'vault' } } },
  },
  {
    title: 'AWS KMS with a session and an endpoint',
    base: 'production',
    values: { masterKey: { kms: { hasSessionToken: true, endpoint: 'https://kms.example' } } },
  },
  { title: 'no migration Job', base: 'external', values: { migration: { enabled: false } } },
  {
    title: 'no network policies and no tests',
    base: 'evaluation',
    values: { networkPolicy: { enabled: false }, tests: { enabled: false } },
  },
  {
    title: 'a foreign service account',
    base: 'external',
    values: { serviceAccount: { create: false, name: 'gateway' } },
  },
  {
    title: 'an annotated service account with token review',
    base: 'external',
    values: {
      serviceAccount: { name: 'gateway', annotations: { 'example.com/role': 'kms' } },
      workloadIdentity: { cluster: { tokenReview: true } },
    },
  },
  {
    title: 'workload tokens of other clusters only',
    base: 'external',
    values: {
      workloadIdentity: {
        cluster: { issuer: '' },
        issuers: [{ issuer: "https://oidc.example/o'neil", jwks_file: '/etc/jwks.json' }],
      },
    },
  },
  {
    title: 'an IPv6 cluster behind a load balancer',
    base: 'external',
    values: {
      controlPlane: { listenAddress: '::' },
      service: { type: 'LoadBalancer', port: 80, annotations: { 'example.com/tls': 'true' } },
    },
  },
  {
    title: 'placement of pods',
    base: 'external',
    values: {
      controlPlane: {
        nodeSelector: { 'kubernetes.io/os': 'linux' },
        tolerations: [{ key: 'gateway', operator: 'Exists' }],
        affinity: { nodeAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [] } },
        topologySpread: { enabled: false },
        podLabels: { tier: 'gateway' },
        podAnnotations: { 'example.com/scrape': 'false' },
      },
    },
  },
  {
    title: 'settings as numbers and text',
    base: 'external',
    values: {
      controlPlane: {
        settings: {
          SALLYPORT_CHECKPOINT_EVENTS: 1_000_000,
          SALLYPORT_WITNESSES: 'witness+0a1b+key https://witness.example',
          SALLYPORT_LOG_LEVEL: 'debug',
        },
      },
    },
  },
  {
    title: 'resources without limits and with a claim',
    base: 'external',
    values: { controlPlane: { resources: { requests: { cpu: 1 }, limits: null } } },
  },
  {
    title: 'long names',
    base: 'production',
    values: { fullnameOverride: `${'gateway-'.repeat(7)}x` },
  },
  { title: 'a name of its own', base: 'evaluation', values: { nameOverride: 'authorizer' } },
  {
    title: 'other images and storage of the evaluation',
    base: 'evaluation',
    values: {
      evaluation: {
        postgres: {
          image: 'registry.example/postgres:17',
          uid: 70,
          storage: '1Gi',
          storageClassName: 'ssd',
        },
        redis: { image: 'registry.example/valkey:9', uid: 1000 },
      },
    },
  },
  {
    title: 'other ports and identity of the sidecar',
    base: 'external',
    values: {
      sidecar: {
        uid: 4321,
        transparentPort: 25_001,
        dnsPort: 25_053,
        holdTime: 0,
        controlPlaneUrl: 'https://sallyport.example',
        redis: { existingSecret: '', url: 'rediss://redis.example:6379' },
      },
    },
  },
];
