import { z } from 'zod';
import {
  milliseconds,
  parseSettings,
  port,
  redisUrl,
  SettingsError,
  type SettingsSource,
} from '../shared/settings.ts';
import { internalHost } from './ingress/head.ts';
import { type Limits, limitSettings, readLimits } from './limits.ts';
import { type NameConstraints, parseNameConstraints } from './tls/name-constraints.ts';

const schema = z.object({
  SALLYPORT_PROXY_PORT: port(8181),
  SALLYPORT_PROXY_ADMIN_PORT: port(8182),
  SALLYPORT_PROXY_HOST: z.string().default('127.0.0.1'),
  SALLYPORT_PROXY_TOKEN: z.string().min(16).optional(),
  SALLYPORT_DATA_DIR: z.string().default('.sallyport'),
  SALLYPORT_CONTROL_PLANE_URL: z.url().default('http://127.0.0.1:8080'),
  SALLYPORT_ENROLMENT_TOKEN: z.string().optional(),
  SALLYPORT_ALLOW_PRIVATE: z.string().default(''),
  SALLYPORT_CA_NAME_CONSTRAINTS: z.string().optional(),
  SALLYPORT_SPOOL_FSYNC: z.enum(['0', '1']).default('0'),
  SALLYPORT_HOLD_MS: milliseconds(25_000),
  SALLYPORT_MAX_STALENESS_MS: milliseconds(30_000),
  SALLYPORT_SPOOL_BYTES_MAX: z.coerce
    .number()
    .int()
    .min(10_000)
    .default(1024 ** 3),
  ...limitSettings,
  SALLYPORT_LOG_LEVEL: z.enum(['debug', 'info', 'warn', 'error', 'silent']).default('info'),
  REDIS_URL: redisUrl,
});

/** The sidecar's settings (design 14), read once at start. */
export interface Config {
  readonly proxyHost: string;
  readonly proxyPort: number;
  readonly adminPort: number;
  readonly proxyToken: string | undefined;
  readonly dataDir: string;
  /** Origin of the control plane, without `/api`. */
  readonly controlPlaneUrl: string;
  readonly enrolmentToken: string | undefined;
  readonly allowPrivate: string;
  /** The hosts that the local authority may speak for; undefined: any. */
  readonly permittedHosts: NameConstraints | undefined;
  readonly spoolFsync: boolean;
  readonly spoolBytesMax: number;
  readonly limits: Limits;
  readonly holdMs: number;
  readonly maxStalenessMs: number;
  readonly logLevel: string;
  readonly redisUrl: string | undefined;
}

const loopback = ['127.0.0.1', '::1', 'localhost'];

export function readConfig(source: SettingsSource): Config {
  const settings = parseSettings(schema, source);
  if (!loopback.includes(settings.SALLYPORT_PROXY_HOST) && !settings.SALLYPORT_PROXY_TOKEN) {
    throw new SettingsError(
      'SALLYPORT_PROXY_HOST is reachable from other machines: set SALLYPORT_PROXY_TOKEN as well.',
    );
  }
  return {
    proxyHost: settings.SALLYPORT_PROXY_HOST,
    proxyPort: settings.SALLYPORT_PROXY_PORT,
    adminPort: settings.SALLYPORT_PROXY_ADMIN_PORT,
    proxyToken: settings.SALLYPORT_PROXY_TOKEN,
    dataDir: settings.SALLYPORT_DATA_DIR,
    controlPlaneUrl: settings.SALLYPORT_CONTROL_PLANE_URL.replace(/\/(api\/?)?$/, ''),
    enrolmentToken: settings.SALLYPORT_ENROLMENT_TOKEN,
    allowPrivate: settings.SALLYPORT_ALLOW_PRIVATE,
    permittedHosts: permittedHosts(settings.SALLYPORT_CA_NAME_CONSTRAINTS),
    spoolFsync: settings.SALLYPORT_SPOOL_FSYNC === '1',
    spoolBytesMax: settings.SALLYPORT_SPOOL_BYTES_MAX,
    limits: readLimits(settings),
    holdMs: settings.SALLYPORT_HOLD_MS,
    maxStalenessMs: settings.SALLYPORT_MAX_STALENESS_MS,
    logLevel: settings.SALLYPORT_LOG_LEVEL,
    redisUrl: settings.REDIS_URL,
  };
}

function permittedHosts(text: string | undefined): NameConstraints | undefined {
  if (text === undefined) return undefined;
  try {
    return parseNameConstraints(text, [internalHost]);
  } catch (error) {
    throw new SettingsError(`SALLYPORT_CA_NAME_CONSTRAINTS: ${(error as Error).message}`, {
      cause: error,
    });
  }
}
