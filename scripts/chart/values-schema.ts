// The types of the chart's values. `npm run chart` writes them as JSON Schema.
import { z } from 'zod';

const name = z.string().regex(/^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$/, 'must be a Kubernetes name');
const requiredName = z.string().regex(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/);
const secretKey = z.string().regex(/^[-._a-zA-Z0-9]*$/);
const quantity = z.union([z.string().regex(/^[0-9.]+([EPTGMk]i?|m|[eE]-?[0-9]+)?$/), z.number()]);
const texts = z.record(z.string(), z.string());
const port = z.int().min(1).max(65_535);
const uid = z.int().min(1).max(2_147_483_647);

/** An object of the Kubernetes API, which the API server checks. */
const kubernetesObject = z.record(z.string(), z.unknown());
const kubernetesList = z.array(kubernetesObject);

const resources = z.strictObject({
  requests: z.record(z.string(), quantity).optional(),
  limits: z.record(z.string(), quantity).optional(),
  claims: kubernetesList.optional(),
});
const secretReference = { existingSecret: name, key: secretKey };
const image = z.string().regex(/^[a-zA-Z0-9._/:@-]+$/);

/** Settings of the control plane that are neither secrets nor set by the chart itself. */
export const controlPlaneSettings = [
  'SALLYPORT_ALLOW_PRIVATE',
  'SALLYPORT_CHECKPOINT_EVENTS',
  'SALLYPORT_CHECKPOINT_INTERVAL_MS',
  'SALLYPORT_ENVIRONMENT',
  'SALLYPORT_LEDGER_ORIGIN',
  'SALLYPORT_LOG_LEVEL',
  'SALLYPORT_MAX_ANSWER_BYTES',
  'SALLYPORT_REQUESTS_PER_MINUTE',
  'SALLYPORT_TENANT',
  'SALLYPORT_UPSTREAM_CONNECT_MS',
  'SALLYPORT_UPSTREAM_TIMEOUT_MS',
  'SALLYPORT_VERIFY_MS',
  'SALLYPORT_VERIFY_WHOLE_HOURS',
  'SALLYPORT_WITNESSES',
  'SALLYPORT_WORKLOAD_UNSEEN_HOURS',
] as const;

const setting = z.union([z.string(), z.number()]).optional();
const settings = z.strictObject(
  Object.fromEntries(controlPlaneSettings.map((one) => [one, setting])),
);

const controlPlane = z.strictObject({
  replicas: z.int().min(1).max(100),
  listenAddress: z.string().min(1),
  settings,
  extraEnv: kubernetesList,
  extraVolumes: kubernetesList,
  extraVolumeMounts: kubernetesList,
  resources,
  podAnnotations: texts,
  podLabels: texts,
  priorityClassName: name,
  nodeSelector: texts,
  tolerations: kubernetesList,
  affinity: kubernetesObject,
  topologySpread: z.strictObject({
    enabled: z.boolean(),
    whenUnsatisfiable: z.enum(['ScheduleAnyway', 'DoNotSchedule']),
  }),
  podDisruptionBudget: z.strictObject({
    enabled: z.boolean(),
    maxUnavailable: z.union([z.int().min(1), z.string().regex(/^[0-9]{1,2}%$/)]),
  }),
  autoscaling: z.strictObject({
    enabled: z.boolean(),
    minReplicas: z.int().min(1),
    maxReplicas: z.int().min(1),
    targetCPUUtilizationPercentage: z.int().min(1).max(100),
  }),
  terminationGracePeriodSeconds: z.int().min(15).max(3600),
});

const server = { uid, image, resources };

const evaluation = z.strictObject({
  enabled: z.boolean(),
  existingSecret: name,
  postgres: z.strictObject({ ...server, storage: quantity, storageClassName: name }),
  redis: z.strictObject(server),
});

const monitor = z.strictObject({
  enabled: z.boolean(),
  interval: z.string().regex(/^[0-9]+(ms|s|m|h)$/),
  labels: texts,
});

const metrics = z.strictObject({
  serviceMonitor: monitor,
  podMonitor: monitor,
  prometheusRule: z.strictObject({ enabled: z.boolean(), labels: texts }),
  dashboard: z.strictObject({ enabled: z.boolean(), labels: texts, annotations: texts }),
});

const injector = z.strictObject({
  enabled: z.boolean(),
  mode: z.enum(['webhook', 'policy']),
  replicas: z.int().min(1).max(20),
  resources,
});

const sidecar = z.strictObject({
  uid: z.int().min(0).max(2_147_483_647),
  transparentPort: port,
  dnsPort: port,
  controlPlaneUrl: z.string().regex(/^(https?:\/\/[^/]+)?\/?$/),
  redis: z.strictObject({
    ...secretReference,
    url: z.string().regex(/^(rediss?:\/\/[^@\s]+)?$/, 'must not contain a password'),
  }),
  holdTime: z.int().min(0).max(60_000),
  settings: z.record(
    z.string().regex(/^[A-Z][A-Z0-9_]*$/),
    z.union([z.string().min(1), z.number()]),
  ),
  resources,
});

const filePath = z.string().min(1).optional();
const issuer = z.strictObject({
  issuer: z.string().regex(/^https:\/\//),
  jwks_url: z
    .string()
    .regex(/^https:\/\//)
    .optional(),
  jwks_file: filePath,
  ca_file: filePath,
  token_file: filePath,
  token_review: kubernetesObject.optional(),
});

export const valuesSchema = z.strictObject({
  nameOverride: name,
  fullnameOverride: name,
  commonLabels: texts,
  global: kubernetesObject.optional(),
  image: z.strictObject({
    repository: z.string().regex(/^([a-z0-9._/:-]+)?$/),
    tag: z.string().regex(/^[A-Za-z0-9._-]*$/),
    digest: z.string().regex(/^(sha256:[0-9a-f]{64})?$/),
    pullPolicy: z.enum(['Always', 'IfNotPresent', 'Never']),
    pullSecrets: z.array(z.strictObject({ name: requiredName })),
  }),
  database: z.strictObject(secretReference),
  redis: z.strictObject(secretReference),
  masterKey: z.strictObject({
    ...secretReference,
    previousKey: secretKey,
    kms: z.strictObject({
      key: z.string().regex(/^((aws:arn:|vault:https?:\/\/).+)?$/),
      existingSecret: name,
      hasSessionToken: z.boolean(),
      endpoint: z.string().regex(/^(https?:\/\/.+)?$/),
    }),
  }),
  controlPlane,
  migration: z.strictObject({
    ...secretReference,
    enabled: z.boolean(),
    activeDeadlineSeconds: z.int().min(30),
    resources,
  }),
  workloadIdentity: z.strictObject({
    cluster: z.strictObject({
      issuer: z.string().regex(/^(https:\/\/.+)?$/),
      tokenReview: z.boolean(),
    }),
    issuers: z.array(issuer),
  }),
  serviceAccount: z.strictObject({ create: z.boolean(), name, annotations: texts }),
  service: z.strictObject({
    type: z.enum(['ClusterIP', 'NodePort', 'LoadBalancer']),
    port,
    annotations: texts,
  }),
  ingress: z.strictObject({
    enabled: z.boolean(),
    className: name,
    annotations: texts,
    hosts: z.array(z.string().min(1)),
    tls: z.array(z.strictObject({ secretName: requiredName, hosts: z.array(z.string()) })),
  }),
  httpRoute: z.strictObject({
    enabled: z.boolean(),
    annotations: texts,
    parentRefs: kubernetesList,
    hostnames: z.array(z.string().min(1)),
  }),
  networkPolicy: z.strictObject({
    enabled: z.boolean(),
    apiFrom: kubernetesList,
    metricsFrom: kubernetesList,
    egress: kubernetesList,
  }),
  metrics,
  evaluation,
  injector,
  sidecar,
  tests: z.strictObject({ enabled: z.boolean() }),
});
