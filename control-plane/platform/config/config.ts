import { z } from 'zod';
import {
  choice,
  limit,
  logLevel,
  milliseconds,
  parseSettings,
  port,
  privateRanges,
  redisUrl,
  type SettingsSource,
} from '../../../shared/base/settings.ts';
import { type Environment, environments } from '../../../shared/vocabulary/action.ts';
import { type OidcIssuer, readIssuers } from './issuer-settings.ts';
import { ledgerOriginSetting, readWitnesses, type Witness } from './witness-settings.ts';

const schema = z.object({
  SALLYPORT_API_PORT: port(8080),
  SALLYPORT_API_ADMIN_PORT: port(0).removeDefault().optional(),
  SALLYPORT_API_HOST: z.string().default('127.0.0.1'),
  SALLYPORT_DATA_DIR: z.string().default('.sallyport'),
  SALLYPORT_DEV_KEYS: z.string().default(''),
  SALLYPORT_MASTER_KEY: z.string().optional(),
  SALLYPORT_MASTER_KEY_PREVIOUS: z.string().optional(),
  SALLYPORT_KMS_KEY: z.string().optional(),
  SALLYPORT_KMS_TOKEN: z.string().optional(),
  AWS_ACCESS_KEY_ID: z.string().optional(),
  AWS_SECRET_ACCESS_KEY: z.string().optional(),
  AWS_SESSION_TOKEN: z.string().optional(),
  AWS_ENDPOINT_URL_KMS: z.string().optional(),
  SALLYPORT_TENANT: z.string().default('default'),
  SALLYPORT_REQUESTS_PER_MINUTE: limit('requests', { from: 1, to: 1_000_000_000, byDefault: 600 }),
  SALLYPORT_LEDGER_ORIGIN: ledgerOriginSetting.default('sallyport'),
  SALLYPORT_CHECKPOINT_EVENTS: limit('events', { from: 1, to: 1_000_000, byDefault: 1_000 }),
  SALLYPORT_CHECKPOINT_INTERVAL_MS: milliseconds(300_000, 1),
  SALLYPORT_WITNESSES: z.string().default(''),
  SALLYPORT_OIDC_ISSUERS: z.string().default(''),
  SALLYPORT_WORKLOAD_UNSEEN_HOURS: limit('hours', { from: 1, to: 8_760, byDefault: 24 }),
  SALLYPORT_ALLOW_PRIVATE: z.string().default(''),
  SALLYPORT_UPSTREAM_CONNECT_MS: milliseconds(10_000, 1),
  SALLYPORT_UPSTREAM_TIMEOUT_MS: milliseconds(60_000, 1),
  SALLYPORT_MAX_ANSWER_BYTES: limit('bytes', { from: 1, to: 16_777_216, byDefault: 1_048_576 }),
  SALLYPORT_VERIFY_MS: milliseconds(300_000, 1_000),
  SALLYPORT_VERIFY_WHOLE_HOURS: limit('hours', { from: 1, to: 8_760, byDefault: 24 }),
  SALLYPORT_LOG_LEVEL: logLevel.default('info'),
  SALLYPORT_ENVIRONMENT: choice(environments).default('prod'),
  DATABASE_URL: z.string().optional(),
  REDIS_URL: redisUrl,
  NODE_ENV: z.string().optional(),
});

/** Credentials that the control plane uses at a KMS. */
export interface KmsAccess {
  /** Token for Vault. */
  readonly token: string | undefined;
  readonly accessKeyId: string | undefined;
  readonly secretAccessKey: string | undefined;
  readonly sessionToken: string | undefined;
  /** Endpoint of AWS KMS, if it is not the region's default. */
  readonly endpoint: string | undefined;
}

/** The control plane's settings (design 14), read once at start. */
export interface Config {
  readonly apiHost: string;
  readonly apiPort: number;
  /** Port of `/metrics` and detailed `/readyz`; undefined: the API's port also serves them. */
  readonly adminPort?: number | undefined;
  readonly dataDir: string;
  readonly devKeys: string;
  /** Base64 of 32 bytes; undefined: embedded mode creates one in the data directory. */
  readonly masterKey: string | undefined;
  /** The previous master key, needed as long as a secret may be wrapped with it. */
  readonly masterKeyPrevious: string | undefined;
  /** KMS key that generates master keys; undefined: the operator supplies them. */
  readonly kmsKey: string | undefined;
  readonly kmsAccess: KmsAccess;
  readonly tenantId: string;
  /** Undefined: embedded Postgres in the data directory. */
  readonly databaseUrl: string | undefined;
  /** Undefined: the in-process bus. */
  readonly redisUrl: string | undefined;
  /** Maximum number of requests of a tenant per minute. */
  readonly requestsPerMinute: number;
  /** Name of this installation in checkpoints. */
  readonly ledgerOrigin: string;
  /** Number of new events after which a checkpoint is created. */
  readonly checkpointEvents: number;
  /** Time after which a checkpoint is created, provided there is at least one new event. */
  readonly checkpointIntervalMs: number;
  /** Witnesses that cosign checkpoints. */
  readonly witnesses: readonly Witness[];
  /** Clusters whose service account tokens enrol sidecars. */
  readonly oidcIssuers: readonly OidcIssuer[];
  /** Time after its last report at which a pod's sidecar is revoked. */
  readonly workloadUnseenHours: number;
  /** Private CIDR ranges that `execute` may reach. */
  readonly allowPrivate: readonly string[];
  readonly upstreamConnectMs: number;
  /** Timeout of a whole `execute` call, counted from the establishment of the connection. */
  readonly upstreamTimeoutMs: number;
  /** Maximum size of an upstream's response that `execute` returns. */
  readonly answerBytesMax: number;
  /** Interval at which the events sealed since the last verification are verified. */
  readonly verifyMs: number;
  /** Interval at which the whole ledger is verified. */
  readonly verifyWholeHours: number;
  readonly logLevel: string;
  readonly production: boolean;
  /** Value of `environment` in policies when the control plane itself decides. */
  readonly environment: Environment;
}

export function readConfig(source: SettingsSource): Config {
  const settings = parseSettings(schema, source);
  return {
    apiHost: settings.SALLYPORT_API_HOST,
    apiPort: settings.SALLYPORT_API_PORT,
    adminPort: settings.SALLYPORT_API_ADMIN_PORT,
    dataDir: settings.SALLYPORT_DATA_DIR,
    devKeys: settings.SALLYPORT_DEV_KEYS,
    masterKey: settings.SALLYPORT_MASTER_KEY,
    masterKeyPrevious: settings.SALLYPORT_MASTER_KEY_PREVIOUS,
    kmsKey: settings.SALLYPORT_KMS_KEY,
    kmsAccess: {
      token: settings.SALLYPORT_KMS_TOKEN,
      accessKeyId: settings.AWS_ACCESS_KEY_ID,
      secretAccessKey: settings.AWS_SECRET_ACCESS_KEY,
      sessionToken: settings.AWS_SESSION_TOKEN,
      endpoint: settings.AWS_ENDPOINT_URL_KMS,
    },
    tenantId: settings.SALLYPORT_TENANT,
    databaseUrl: settings.DATABASE_URL,
    redisUrl: settings.REDIS_URL,
    requestsPerMinute: settings.SALLYPORT_REQUESTS_PER_MINUTE,
    ledgerOrigin: settings.SALLYPORT_LEDGER_ORIGIN,
    checkpointEvents: settings.SALLYPORT_CHECKPOINT_EVENTS,
    checkpointIntervalMs: settings.SALLYPORT_CHECKPOINT_INTERVAL_MS,
    witnesses: readWitnesses(settings.SALLYPORT_WITNESSES),
    oidcIssuers: readIssuers(settings.SALLYPORT_OIDC_ISSUERS, source.readFile),
    workloadUnseenHours: settings.SALLYPORT_WORKLOAD_UNSEEN_HOURS,
    allowPrivate: privateRanges(settings.SALLYPORT_ALLOW_PRIVATE),
    upstreamConnectMs: settings.SALLYPORT_UPSTREAM_CONNECT_MS,
    upstreamTimeoutMs: settings.SALLYPORT_UPSTREAM_TIMEOUT_MS,
    answerBytesMax: settings.SALLYPORT_MAX_ANSWER_BYTES,
    verifyMs: settings.SALLYPORT_VERIFY_MS,
    verifyWholeHours: settings.SALLYPORT_VERIFY_WHOLE_HOURS,
    logLevel: settings.SALLYPORT_LOG_LEVEL,
    production: settings.NODE_ENV === 'production',
    environment: settings.SALLYPORT_ENVIRONMENT,
  };
}
