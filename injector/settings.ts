import { z } from 'zod';
import { formatAuthority } from '../shared/base/host.ts';
import {
  logLevel,
  parseSettings,
  port,
  SettingsError,
  type SettingsSource,
} from '../shared/base/settings.ts';
import { type Injection, parseInjection } from './pod/injection.ts';

const name = z
  .string()
  .regex(/^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/, 'must be a name of Kubernetes');
const required = 'is missing; the chart sets it';

const schema = z.object({
  SALLYPORT_INJECTION_FILE: z.string({ error: required }),
  SALLYPORT_INJECTOR_HOST: z.string().default('127.0.0.1'),
  SALLYPORT_INJECTOR_PORT: port(8443),
  SALLYPORT_INJECTOR_ADMIN_PORT: port(8444),
  SALLYPORT_INJECTOR_NAMESPACE: z.string({ error: required }).pipe(name),
  SALLYPORT_INJECTOR_SERVICE: name.default('sallyport-injector'),
  SALLYPORT_INJECTOR_SECRET: name.default('sallyport-injector-tls'),
  SALLYPORT_INJECTOR_MUTATING_WEBHOOK: name.default('sallyport-injector'),
  SALLYPORT_INJECTOR_VALIDATING_WEBHOOK: name.default('sallyport-injector'),
  SALLYPORT_LOG_LEVEL: logLevel.default('info'),
});

export interface Settings {
  readonly injection: Injection;
  readonly host: string;
  readonly port: number;
  readonly adminPort: number;
  /** DNS name by which the API server calls the webhook. */
  readonly serviceHost: string;
  readonly secret: { readonly namespace: string; readonly name: string };
  readonly configurations: { readonly mutating: string; readonly validating: string };
  /** Origin of the API server. */
  readonly apiUrl: string;
  readonly logLevel: string;
}

export function readSettings(source: SettingsSource): Settings {
  const settings = parseSettings(schema, source);
  const namespace = settings.SALLYPORT_INJECTOR_NAMESPACE;
  return {
    injection: readInjection(settings.SALLYPORT_INJECTION_FILE, source),
    host: settings.SALLYPORT_INJECTOR_HOST,
    port: settings.SALLYPORT_INJECTOR_PORT,
    adminPort: settings.SALLYPORT_INJECTOR_ADMIN_PORT,
    serviceHost: `${settings.SALLYPORT_INJECTOR_SERVICE}.${namespace}.svc`,
    secret: { namespace, name: settings.SALLYPORT_INJECTOR_SECRET },
    configurations: {
      mutating: settings.SALLYPORT_INJECTOR_MUTATING_WEBHOOK,
      validating: settings.SALLYPORT_INJECTOR_VALIDATING_WEBHOOK,
    },
    apiUrl: apiUrl(source.env),
    logLevel: settings.SALLYPORT_LOG_LEVEL,
  };
}

function readInjection(path: string, { readFile }: SettingsSource): Injection {
  let text: string;
  try {
    text = readFile(path);
  } catch (cause) {
    throw new SettingsError(
      `SALLYPORT_INJECTION_FILE names a file that cannot be read: ${path}. The chart mounts it.`,
      { cause },
    );
  }
  return parseInjection(text);
}

/** The kubelet sets these variables in every container. */
function apiUrl({
  KUBERNETES_SERVICE_HOST: host,
  KUBERNETES_SERVICE_PORT: apiPort,
}: SettingsSource['env']): string {
  if (host === undefined || apiPort === undefined) {
    throw new SettingsError(
      'KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are missing: the injector runs in a pod of Kubernetes.',
    );
  }
  return `https://${formatAuthority({ host, port: Number(apiPort) })}`;
}
