import { z } from 'zod';
import { cidr } from './address.ts';
import { nearestName } from './nearest-name.ts';

/**
 * The settings (design 14) of all programs, in one list because one environment may hold the
 * settings of several programs. A name outside the list is an operator error.
 */
export const settingNames = [
  'SALLYPORT_API_HOST',
  'SALLYPORT_API_PORT',
  'SALLYPORT_API_ADMIN_PORT',
  'SALLYPORT_PROXY_PORT',
  'SALLYPORT_PROXY_ADMIN_PORT',
  'SALLYPORT_TRANSPARENT_PORT',
  'SALLYPORT_DNS_PORT',
  'SALLYPORT_REDIRECT_SOCKET',
  'SALLYPORT_DATA_DIR',
  'SALLYPORT_DEV_KEYS',
  'SALLYPORT_AGENT_ID',
  'SALLYPORT_USER_ID',
  'SALLYPORT_MASTER_KEY',
  'SALLYPORT_MASTER_KEY_PREVIOUS',
  'SALLYPORT_KMS_KEY',
  'SALLYPORT_KMS_TOKEN',
  'SALLYPORT_CONTROL_PLANE_URL',
  'SALLYPORT_ENROLMENT_TOKEN',
  'SALLYPORT_WORKLOAD_TOKEN_FILE',
  'SALLYPORT_WORKLOAD_UNSEEN_HOURS',
  'SALLYPORT_OIDC_ISSUERS',
  'SALLYPORT_PROXY_HOST',
  'SALLYPORT_PROXY_ADMIN_HOST',
  'SALLYPORT_PROXY_TOKEN',
  'SALLYPORT_ALLOW_PRIVATE',
  'SALLYPORT_CA_NAME_CONSTRAINTS',
  'SALLYPORT_TRUST_BUNDLE_DIRECTORY',
  'SALLYPORT_ENVIRONMENT',
  'SALLYPORT_SPOOL_FSYNC',
  'SALLYPORT_SPOOL_BYTES_MAX',
  'SALLYPORT_UPSTREAM_TIMEOUT_MS',
  'SALLYPORT_UPSTREAM_CONNECT_MS',
  'SALLYPORT_UPSTREAM_IDLE_MS',
  'SALLYPORT_MAX_BODY_BYTES',
  'SALLYPORT_BUFFER_BYTES_MAX',
  'SALLYPORT_MAX_ANSWER_BYTES',
  'SALLYPORT_MAX_HEADER_BYTES',
  'SALLYPORT_MAX_HEADERS',
  'SALLYPORT_MAX_CONNECTIONS',
  'SALLYPORT_MAX_HELD_CALLS',
  'SALLYPORT_MAX_TUNNELS',
  'SALLYPORT_DENIALS_PER_SECOND',
  'SALLYPORT_DENIALS_BURST',
  'SALLYPORT_HEAD_TIMEOUT_MS',
  'SALLYPORT_BODY_IDLE_MS',
  'SALLYPORT_TUNNEL_IDLE_MS',
  'SALLYPORT_DRAIN_MS',
  'SALLYPORT_HOLD_MS',
  'SALLYPORT_HOLD_MS_MAX',
  'SALLYPORT_MAX_STALENESS_MS',
  'SALLYPORT_TENANT',
  'SALLYPORT_REQUESTS_PER_MINUTE',
  'SALLYPORT_LEDGER_ORIGIN',
  'SALLYPORT_CHECKPOINT_EVENTS',
  'SALLYPORT_CHECKPOINT_INTERVAL_MS',
  'SALLYPORT_WITNESSES',
  'SALLYPORT_VERIFY_MS',
  'SALLYPORT_VERIFY_WHOLE_HOURS',
  'SALLYPORT_LOG_LEVEL',
  'SALLYPORT_INJECTION_FILE',
  'SALLYPORT_INJECTOR_HOST',
  'SALLYPORT_INJECTOR_PORT',
  'SALLYPORT_INJECTOR_ADMIN_PORT',
  'SALLYPORT_INJECTOR_SERVICE',
  'SALLYPORT_INJECTOR_NAMESPACE',
  'SALLYPORT_INJECTOR_SECRET',
  'SALLYPORT_INJECTOR_MUTATING_WEBHOOK',
  'SALLYPORT_INJECTOR_VALIDATING_WEBHOOK',
  'SALLYPORT_API_KEY',
] as const;

/** Settings that hold a secret and may be given as a file, `<NAME>_FILE`. */
export const secretSettings = [
  'SALLYPORT_DEV_KEYS',
  'SALLYPORT_MASTER_KEY',
  'SALLYPORT_MASTER_KEY_PREVIOUS',
  'SALLYPORT_KMS_TOKEN',
  'SALLYPORT_ENROLMENT_TOKEN',
  'SALLYPORT_PROXY_TOKEN',
  'SALLYPORT_API_KEY',
  'DATABASE_URL',
  'REDIS_URL',
] as readonly string[];

/** The source of settings: an environment and a file reader. */
export interface SettingsSource {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Reads a whole text file, or throws. */
  readonly readFile: (path: string) => string;
}

/**
 * Reports an unusable setting. The message addresses the operator: what is wrong and what to do.
 */
export class SettingsError extends Error {
  override readonly name = 'SettingsError';
}

/**
 * Removes `NODE_TLS_REJECT_UNAUTHORIZED` from an environment, because it would disable certificate
 * verification in Node, including for the control plane and Redis. Returns true if the variable
 * disabled verification.
 */
export function ignoreInsecureTls(env: Record<string, string | undefined>): boolean {
  const isInsecure = env.NODE_TLS_REJECT_UNAUTHORIZED === '0';
  delete env.NODE_TLS_REJECT_UNAUTHORIZED;
  return isInsecure;
}

export const insecureTlsIgnored =
  'NODE_TLS_REJECT_UNAUTHORIZED=0 is ignored: certificates are always verified; add your certificate authorities with NODE_EXTRA_CA_CERTS';

const portError = 'must be a port from 1 to 65535, or 0 for any free one';
const portNumber = z.coerce
  .number({ error: portError })
  .int(portError)
  .min(0, portError)
  .max(65_535, portError);

/** A TCP port; 0 selects any free port. */
export function port(byDefault: number) {
  return portNumber.default(byDefault);
}

/** A port that is not opened unless it is set. */
export const optionalPort = portNumber.optional();

/**
 * The Redis URL; undefined means no Redis. Must be a URL, because ioredis takes other text for a
 * local socket path.
 */
export const redisUrl = z
  .string()
  .regex(/^rediss?:\/\/./, 'must begin with redis:// or rediss://, as in redis://host:6379')
  .optional();

/**
 * The URL of an HTTP server. The scheme is required, because URL parsers read the name in
 * `name:port` as a scheme.
 */
export function httpUrl(example: string) {
  const error = `must begin with http:// or https://, as in ${example}`;
  const isHttp = (text: string) => /^https?:\/\/[^/]/i.test(text) && URL.canParse(text);
  return z.string().refine(isHttp, error);
}

/** A limit: a whole number of `unit` within the range that the program supports. */
export function limit(
  unit: string,
  { from, to, byDefault }: { readonly from: number; readonly to: number; byDefault: number },
) {
  const error = `must be a whole number of ${unit} from ${from} to ${to}`;
  return z.coerce.number({ error }).int(error).min(from, error).max(to, error).default(byDefault);
}

const dayMs = 24 * 3_600_000;

/** Milliseconds up to one day. Node timers overflow beyond 24 days and would fire at once. */
export function milliseconds(byDefault: number, from = 0) {
  return limit('milliseconds', { from, to: dayMs, byDefault });
}

/** The value of `SALLYPORT_ALLOW_PRIVATE` as CIDR ranges. */
export function privateRanges(text: string): readonly string[] {
  const ranges = text.split(',').map((range) => range.trim());
  const given = ranges.filter((range) => range !== '');
  asSetting('SALLYPORT_ALLOW_PRIVATE', () => given.map(cidr));
  return given;
}

/** Runs `read` and rethrows its error as a `SettingsError` that names the setting. */
export function asSetting<T>(name: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new SettingsError(`${name}: ${(error as Error).message}`, { cause: error });
  }
}

/** A setting with a fixed list of allowed words. */
export function choice<const Words extends readonly [string, ...string[]]>(words: Words) {
  return z.enum(words, { error: `must be one of ${words.join(', ')}` });
}

export const logLevel = choice(['debug', 'info', 'warn', 'error', 'silent']);

/**
 * Reads settings from an environment: resolves the `*_FILE` forms of secrets and reports every
 * invalid value. Rejects unknown `SALLYPORT_*` names and suggests the nearest known one.
 */
export function parseSettings<Shape extends z.ZodObject>(
  shape: Shape,
  { env, readFile }: SettingsSource,
): z.output<Shape> {
  refuseUnknown(env);
  const values: Record<string, string> = {};
  for (const name of Object.keys(shape.shape)) {
    const value = secretSettings.includes(name) ? readSecret(name, { env, readFile }) : env[name];
    if (value !== undefined && value !== '') values[name] = value;
  }
  const parsed = shape.safeParse(values);
  if (parsed.success) return parsed.data;
  throw new SettingsError(
    parsed.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`).join('; '),
  );
}

function readSecret(name: string, { env, readFile }: SettingsSource): string | undefined {
  const file = env[`${name}_FILE`];
  if (file === undefined) return env[name];
  if (env[name] !== undefined) throw new SettingsError(`Set ${name} or ${name}_FILE, not both.`);
  try {
    return readFile(file).trim();
  } catch (cause) {
    throw new SettingsError(`${name}_FILE names a file that cannot be read: ${file}`, { cause });
  }
}

// Variables that Kubernetes sets in every pod for services named sallyport-*.
const kubernetesForm = /_(SERVICE_(HOST|PORT)(_.*)?|PORT(_\d+_(TCP|UDP)(_(PROTO|PORT|ADDR))?)?)$/;

function refuseUnknown(env: SettingsSource['env']): void {
  const known: readonly string[] = [
    ...settingNames,
    ...secretSettings.map((name) => `${name}_FILE`),
  ];
  for (const name of Object.keys(env)) {
    if (!name.startsWith('SALLYPORT_') || known.includes(name) || isKubernetes(name, env)) continue;
    const nearest = nearestName(name, known);
    throw new SettingsError(`${name} is not a setting. Did you mean ${nearest}?`);
  }
}

function isKubernetes(name: string, env: Readonly<Record<string, string | undefined>>): boolean {
  const service = name.replace(kubernetesForm, '');
  return service !== name && env[`${service}_SERVICE_HOST`] !== undefined;
}
