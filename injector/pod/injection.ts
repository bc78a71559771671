import { z } from 'zod';
import { SettingsError } from '../../shared/base/settings.ts';

const port = z.int().min(1).max(65_535);
const quantity = z.string().regex(/^[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi)?$/);
const amounts = z.strictObject({ cpu: quantity.optional(), memory: quantity.optional() });

/** Settings that the injection itself determines; the chart refuses them, too. */
export const determinedSettings: readonly string[] = [
  'REDIS_URL',
  'SALLYPORT_AGENT_ID',
  'SALLYPORT_CONTROL_PLANE_URL',
  'SALLYPORT_DATA_DIR',
  'SALLYPORT_DNS_PORT',
  'SALLYPORT_HOLD_MS',
  'SALLYPORT_PROXY_ADMIN_HOST',
  'SALLYPORT_PROXY_ADMIN_PORT',
  'SALLYPORT_TRANSPARENT_PORT',
  'SALLYPORT_TRUST_BUNDLE_DIRECTORY',
  'SALLYPORT_WORKLOAD_TOKEN_FILE',
];

/** Further settings of the sidecar, by name. */
const settings = z.record(z.string(), z.string().min(1)).superRefine((given, context) => {
  for (const name of Object.keys(given).filter((one) => determinedSettings.includes(one))) {
    const message = 'is set by the injection: use the other values';
    context.addIssue({ code: 'custom', message, path: [name] });
  }
});

const schema = z.strictObject({
  image: z.string().min(1),
  imagePullPolicy: z.enum(['Always', 'IfNotPresent', 'Never']),
  uid: z.int().min(1).max(2_147_483_647),
  transparentPort: port,
  dnsPort: port,
  /** The audience of the service account token with which the sidecar enrols. */
  audience: z.string().min(1),
  controlPlaneUrl: z.url({ protocol: /^https?$/ }),
  redis: z.union([
    z.strictObject({ url: z.string().regex(/^rediss?:\/\/./) }),
    z.strictObject({ secretName: z.string().min(1), secretKey: z.string().min(1) }),
  ]),
  holdTimeMs: z.int().min(0).max(60_000),
  resources: z.strictObject({ requests: amounts.default({}), limits: amounts.default({}) }),
  settings: settings.default({}),
});

/** What is injected into pods: the settings of the sidecar's containers. */
export type Injection = z.output<typeof schema>;

/** Reads the file `SALLYPORT_INJECTION_FILE`, JSON. */
export function parseInjection(text: string): Injection {
  const parsed = schema.safeParse(parseJson(text));
  if (parsed.success) return parsed.data;
  const issues = parsed.error.issues.map(
    ({ path, message }) => `${path.join('.') || 'the file'}: ${message}`,
  );
  throw new SettingsError(
    `SALLYPORT_INJECTION_FILE is not usable: ${issues.join('; ')}. The chart writes this file from its values.`,
  );
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new SettingsError('SALLYPORT_INJECTION_FILE is not JSON.', { cause });
  }
}
