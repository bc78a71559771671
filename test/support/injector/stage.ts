import { request } from 'node:https';
import { text } from 'node:stream/consumers';
import type { TLSSocket } from 'node:tls';
import type { Material } from '../../../injector/certificates/material.ts';
import { type Injector, startInjector } from '../../../injector/main.ts';
import type { Settings } from '../../../injector/settings.ts';
import { type Clock, systemClock } from '../../../shared/base/clock.ts';
import { type Log, silentLog } from '../../../shared/base/log.ts';
import type { Cleanup } from '../sidecar/proxy.ts';
import { type ApiServer, openApiServer } from './api-server.ts';
import { injection } from './injection.ts';

export const serviceHost = 'sallyport-injector.gateway.svc';
export const secretPath = '/api/v1/namespaces/gateway/secrets/sallyport-injector-tls';
const configurations = '/apis/admissionregistration.k8s.io/v1';
const configurationPaths = [
  `${configurations}/mutatingwebhookconfigurations/sallyport`,
  `${configurations}/validatingwebhookconfigurations/sallyport`,
];

/** Starts an API server that has the webhook configurations of the chart. */
export async function openCluster(cleanup: Cleanup): Promise<ApiServer> {
  const api = await openApiServer(cleanup);
  for (const path of configurationPaths) {
    const webhooks = ['namespaces', 'pods'].map((name) => ({ name, clientConfig: {} }));
    api.put(path, { metadata: { name: 'sallyport' }, webhooks });
  }
  return api;
}

interface InjectorOptions {
  readonly clock?: Clock;
  readonly log?: Log;
  readonly settings?: Partial<Settings>;
}

/** Starts a replica of the injector. */
export async function openInjector(
  api: ApiServer,
  cleanup: Cleanup,
  { clock = systemClock, log = silentLog, settings = {} }: InjectorOptions = {},
): Promise<Injector> {
  const injector = await startInjector(
    {
      injection,
      host: '127.0.0.1',
      port: 0,
      adminPort: 0,
      serviceHost,
      secret: { namespace: 'gateway', name: 'sallyport-injector-tls' },
      configurations: { mutating: 'sallyport', validating: 'sallyport' },
      apiUrl: api.url,
      logLevel: 'silent',
      ...settings,
    },
    { clock, log, access: api.access },
  );
  cleanup.add(() => injector.close());
  return injector;
}

/**
 * Returns the authorities that the API server trusts for the webhooks, or undefined if the
 * configurations disagree.
 */
export function publishedAuthorities(api: ApiServer): string | undefined {
  const bundles = configurationPaths.flatMap((path) => {
    const { webhooks } = api.object(path) as unknown as {
      readonly webhooks: readonly { readonly clientConfig: { readonly caBundle?: string } }[];
    };
    return webhooks.map(({ clientConfig }) => clientConfig.caBundle ?? '');
  });
  const [first = ''] = bundles;
  if (first === '' || bundles.some((one) => one !== first)) return undefined;
  return Buffer.from(first, 'base64').toString();
}

export function storedMaterial(api: ApiServer): Record<keyof Material | 'ca', string> {
  const { data } = api.object(secretPath) as unknown as { readonly data: Record<string, string> };
  const read = (key: string) => Buffer.from(data[key] ?? '', 'base64').toString();
  const ca = read('ca.crt');
  return {
    ca,
    authorities: ca,
    authorityKey: read('ca.key'),
    cert: read('tls.crt'),
    key: read('tls.key'),
  };
}

interface Answer {
  readonly status: number;
  readonly body: string;
  /** PEM of the server's certificate. */
  readonly certificate: string;
}

interface Call {
  readonly path: string;
  readonly body: string;
  readonly method?: string;
  /** PEM of the trusted authorities. */
  readonly ca: string;
  readonly maxVersion?: 'TLSv1.1' | 'TLSv1.2' | 'TLSv1.3';
  /** Accepts certificates that are expired or not yet valid. */
  readonly anyTime?: boolean;
}

/** Calls the webhook as the API server does: over TLS, by the name of its service. */
export function callWebhook(port: number, call: Call): Promise<Answer> {
  const { path, body, ca, method = 'POST', maxVersion = 'TLSv1.3', anyTime = false } = call;
  return new Promise((resolve, reject) => {
    const versions = { maxVersion, minVersion: 'TLSv1' } as const;
    const options = { ca, servername: serviceHost, rejectUnauthorized: !anyTime, ...versions };
    const headers = { 'content-type': 'application/json' };
    const req = request(
      { host: '127.0.0.1', port, path, method, headers, agent: false, ...options },
      (res) => {
        const der = (res.socket as TLSSocket).getPeerX509Certificate();
        text(res).then(
          (answered) =>
            resolve({
              status: res.statusCode ?? 0,
              body: answered,
              certificate: der?.toString() ?? '',
            }),
          reject,
        );
      },
    );
    req.once('error', reject);
    req.end(body);
  });
}
