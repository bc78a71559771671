import { z } from 'zod';
import {
  asSetting,
  choice,
  httpUrl,
  limit,
  logLevel,
  milliseconds,
  optionalPort,
  parseSettings,
  port,
  privateRanges,
  redisUrl,
  SettingsError,
  type SettingsSource,
} from '../../shared/base/settings.ts';
import { portsOf } from '../../shared/upstream/own-ports.ts';
import { type NameConstraints, parseNameConstraints } from '../../shared/x509/name-constraints.ts';
import { internalHost } from '../base/internal-host-name.ts';
import { type Limits, limitSettings, readLimits } from './limits.ts';

const samplers = [
  'always_on',
  'always_off',
  'traceidratio',
  'parentbased_always_on',
  'parentbased_always_off',
  'parentbased_traceidratio',
] as const;

/**
 * The standard variables of OpenTelemetry that Sallyport reads; the exporter reads the others
 * itself.
 */
const tracingVariables = {
  OTEL_SDK_DISABLED: z.string().optional(),
  OTEL_TRACES_EXPORTER: z.enum(['otlp', 'none']).default('otlp'),
  OTEL_EXPORTER_OTLP_ENDPOINT: z.url().optional(),
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: z.url().optional(),
  OTEL_TRACES_SAMPLER: z.enum(samplers).default('parentbased_always_on'),
  OTEL_TRACES_SAMPLER_ARG: z.coerce.number().min(0).max(1).default(1),
  OTEL_BSP_SCHEDULE_DELAY: milliseconds(5_000),
};

export interface TracingSettings {
  readonly sampler: (typeof samplers)[number];
  /** For the samplers by ratio: 0 to 1. */
  readonly ratio: number;
  /** How long spans are collected before they are exported. */
  readonly batchDelayMs: number;
}

export interface TransparentSettings {
  /** For redirected TCP connections. */
  readonly port: number;
  /** For redirected DNS queries, over UDP and TCP. */
  readonly dnsPort: number;
}

const schema = z.object({
  SALLYPORT_PROXY_PORT: port(8181),
  SALLYPORT_PROXY_ADMIN_PORT: port(8182),
  SALLYPORT_TRANSPARENT_PORT: optionalPort,
  SALLYPORT_DNS_PORT: port(15_053),
  SALLYPORT_REDIRECT_SOCKET: choice(['0', '1']).default('0'),
  SALLYPORT_PROXY_HOST: z.string().default('127.0.0.1'),
  SALLYPORT_PROXY_ADMIN_HOST: z.string().optional(),
  SALLYPORT_PROXY_TOKEN: z.string().min(16, 'must have at least 16 characters').optional(),
  SALLYPORT_DATA_DIR: z.string().default('.sallyport'),
  SALLYPORT_CONTROL_PLANE_URL: httpUrl('https://sallyport.example').default(
    'http://127.0.0.1:8080',
  ),
  SALLYPORT_ENROLMENT_TOKEN: z.string().optional(),
  SALLYPORT_WORKLOAD_TOKEN_FILE: z.string().optional(),
  SALLYPORT_TENANT: z.string().optional(),
  SALLYPORT_AGENT_ID: z.string().optional(),
  SALLYPORT_TRUST_BUNDLE_DIRECTORY: z.string().optional(),
  SALLYPORT_ALLOW_PRIVATE: z.string().default(''),
  SALLYPORT_CA_NAME_CONSTRAINTS: z.string().optional(),
  SALLYPORT_SPOOL_FSYNC: choice(['0', '1']).default('0'),
  SALLYPORT_HOLD_MS: milliseconds(4_000),
  SALLYPORT_HOLD_MS_MAX: milliseconds(60_000),
  SALLYPORT_MAX_STALENESS_MS: milliseconds(30_000),
  SALLYPORT_SPOOL_BYTES_MAX: limit('bytes', {
    from: 10_000,
    to: 1024 ** 4,
    byDefault: 1024 ** 3,
  }),
  ...limitSettings,
  SALLYPORT_LOG_LEVEL: logLevel.default('info'),
  REDIS_URL: redisUrl,
  ...tracingVariables,
});

/** The sidecar's settings (design 14), read once at start. */
export interface Config {
  readonly proxyHost: string;
  readonly proxyPort: number;
  readonly adminPort: number;
  /** The ports for redirected traffic; undefined if the sidecar accepts none. */
  readonly transparent: TransparentSettings | undefined;
  /** The address of the admin port; default: the proxy's. */
  readonly adminHost: string;
  /** Whether network namespaces of `sallyport run --isolated` may use this sidecar. */
  readonly acceptsNamespaces: boolean;
  readonly proxyToken: string | undefined;
  readonly dataDir: string;
  /** Origin of the control plane, without `/api`. */
  readonly controlPlaneUrl: string;
  readonly enrolmentToken: string | undefined;
  /** File of the projected service account token that the sidecar enrols with. */
  readonly workloadTokenFile: string | undefined;
  /** Tenant to enrol in with this token; undefined: the tenant of the control plane. */
  readonly tenantId: string | undefined;
  /** The agent that the operator expects; the sidecar refuses to start for another one. */
  readonly expectedAgentId: string | undefined;
  /** A directory for the CA bundle that the agent's containers trust. */
  readonly trustBundleDirectory: string | undefined;
  /** CIDR ranges. */
  readonly allowPrivate: readonly string[];
  /** The hosts for which the local authority may issue certificates; undefined means any. */
  readonly permittedHosts: NameConstraints | undefined;
  readonly spoolFsync: boolean;
  readonly spoolBytesMax: number;
  readonly limits: Limits;
  /** How long a call is held for a human's decision. */
  readonly holdMs: number;
  /** The longest hold that an agent may request. */
  readonly holdMsMax: number;
  readonly maxStalenessMs: number;
  readonly logLevel: string;
  readonly redisUrl: string | undefined;
  /** Undefined if no collector is configured or tracing is disabled. */
  readonly tracing: TracingSettings | undefined;
}

function tracingSettings(settings: z.output<typeof schema>): TracingSettings | undefined {
  const endpoint =
    settings.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT ?? settings.OTEL_EXPORTER_OTLP_ENDPOINT;
  const isOff =
    settings.OTEL_SDK_DISABLED?.toLowerCase() === 'true' ||
    settings.OTEL_TRACES_EXPORTER === 'none';
  if (endpoint === undefined || isOff) return undefined;
  return {
    sampler: settings.OTEL_TRACES_SAMPLER,
    ratio: settings.OTEL_TRACES_SAMPLER_ARG,
    batchDelayMs: settings.OTEL_BSP_SCHEDULE_DELAY,
  };
}

function transparentSettings(settings: z.output<typeof schema>): TransparentSettings | undefined {
  const { SALLYPORT_TRANSPARENT_PORT: transparentPort, SALLYPORT_DNS_PORT: dnsPort } = settings;
  return transparentPort === undefined ? undefined : { port: transparentPort, dnsPort };
}

const loopback = ['127.0.0.1', '::1', 'localhost'];

export function readConfig(source: SettingsSource): Config {
  const settings = parseSettings(schema, source);
  if (!loopback.includes(settings.SALLYPORT_PROXY_HOST) && !settings.SALLYPORT_PROXY_TOKEN) {
    throw new SettingsError(
      'SALLYPORT_PROXY_HOST is reachable from other machines: set SALLYPORT_PROXY_TOKEN as well.',
    );
  }
  if (settings.SALLYPORT_ENROLMENT_TOKEN && settings.SALLYPORT_WORKLOAD_TOKEN_FILE) {
    throw new SettingsError(
      'Set SALLYPORT_ENROLMENT_TOKEN or SALLYPORT_WORKLOAD_TOKEN_FILE, not both.',
    );
  }
  return {
    proxyHost: settings.SALLYPORT_PROXY_HOST,
    proxyPort: settings.SALLYPORT_PROXY_PORT,
    adminPort: settings.SALLYPORT_PROXY_ADMIN_PORT,
    transparent: transparentSettings(settings),
    adminHost: settings.SALLYPORT_PROXY_ADMIN_HOST ?? settings.SALLYPORT_PROXY_HOST,
    acceptsNamespaces: settings.SALLYPORT_REDIRECT_SOCKET === '1',
    proxyToken: settings.SALLYPORT_PROXY_TOKEN,
    dataDir: settings.SALLYPORT_DATA_DIR,
    controlPlaneUrl: settings.SALLYPORT_CONTROL_PLANE_URL.replace(/\/(api\/?)?$/, ''),
    enrolmentToken: settings.SALLYPORT_ENROLMENT_TOKEN,
    workloadTokenFile: settings.SALLYPORT_WORKLOAD_TOKEN_FILE,
    tenantId: settings.SALLYPORT_TENANT,
    expectedAgentId: settings.SALLYPORT_AGENT_ID,
    trustBundleDirectory: settings.SALLYPORT_TRUST_BUNDLE_DIRECTORY,
    allowPrivate: privateRanges(settings.SALLYPORT_ALLOW_PRIVATE),
    permittedHosts: permittedHosts(settings.SALLYPORT_CA_NAME_CONSTRAINTS),
    spoolFsync: settings.SALLYPORT_SPOOL_FSYNC === '1',
    spoolBytesMax: settings.SALLYPORT_SPOOL_BYTES_MAX,
    limits: readLimits(settings),
    holdMs: settings.SALLYPORT_HOLD_MS,
    holdMsMax: settings.SALLYPORT_HOLD_MS_MAX,
    maxStalenessMs: settings.SALLYPORT_MAX_STALENESS_MS,
    logLevel: settings.SALLYPORT_LOG_LEVEL,
    redisUrl: settings.REDIS_URL,
    tracing: tracingSettings(settings),
  };
}

function permittedHosts(text: string | undefined): NameConstraints | undefined {
  if (text === undefined) return undefined;
  return asSetting('SALLYPORT_CA_NAME_CONSTRAINTS', () =>
    parseNameConstraints(text, [internalHost]),
  );
}

/** Sallyport's own ports that appear in the sidecar's settings. */
export function ownPorts({
  controlPlaneUrl,
  redisUrl,
}: Pick<Config, 'controlPlaneUrl' | 'redisUrl'>): number[] {
  return portsOf([controlPlaneUrl, redisUrl]);
}
