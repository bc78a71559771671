import fs from 'node:fs';
import { Registry } from 'prom-client';
import { type Clock, systemClock } from '../shared/base/clock.ts';
import { describeFileError } from '../shared/base/file-error.ts';
import type { Log } from '../shared/base/log.ts';
import { programLog } from '../shared/base/program-log.ts';
import { runMain } from '../shared/base/run-main.ts';
import { SettingsError } from '../shared/base/settings.ts';
import { expiryMs } from './certificates/material.ts';
import { Rotation } from './certificates/rotation.ts';
import { type ApiAccess, openKubernetesApi } from './kubernetes/api.ts';
import { openAdmin } from './server/admin.ts';
import { createMetrics } from './server/metrics.ts';
import { openWebhookServer } from './server/webhook-server.ts';
import { readSettings, type Settings } from './settings.ts';

const serviceAccount = '/var/run/secrets/kubernetes.io/serviceaccount';
const drainMs = 10_000;

export interface Injector {
  readonly port: number;
  readonly adminPort: number;
  /** Checks the certificate immediately, in addition to the checks every 30 seconds. */
  checkCertificate(): Promise<void>;
  close(): Promise<void>;
}

interface InjectorOptions {
  readonly log: Log;
  readonly clock?: Clock;
  readonly access?: Omit<ApiAccess, 'url'>;
}

const podAccess = { tokenFile: `${serviceAccount}/token`, caFile: `${serviceAccount}/ca.crt` };

/** Starts the webhook that injects sidecars and guards injected namespaces. */
export async function startInjector(
  settings: Settings,
  { log, clock = systemClock, access = podAccess }: InjectorOptions,
): Promise<Injector> {
  const { host, port, adminPort, injection, secret, configurations } = settings;
  const registry = new Registry();
  const metrics = createMetrics(registry);
  const api = openKubernetesApi({ url: settings.apiUrl, ...access });
  const rotation = new Rotation({
    api,
    clock,
    log,
    host: settings.serviceHost,
    secret,
    configurations,
  });
  const closeApi = async (error: unknown): Promise<never> => {
    await api.close();
    throw error;
  };
  const material = await rotation.start().catch(closeApi);
  metrics.certificate(expiryMs(material));
  const server = await openWebhookServer({
    ...material,
    host,
    port,
    injection,
    metrics,
    log,
  }).catch(closeApi);
  const unready = () => rotation.problem();
  const admin = await openAdmin({ host, port: adminPort, registry, unready }).catch(closeApi);
  rotation.follow((next) => {
    server.present(next);
    metrics.certificate(expiryMs(next));
  });
  return {
    port: server.port,
    adminPort: admin.port,
    checkCertificate: () => rotation.check(),
    close: async () => {
      rotation.close();
      await server.close();
      await admin.close();
      await api.close();
    },
  };
}

async function main(): Promise<void> {
  const settings = readSettings({
    env: process.env,
    readFile: (path) => fs.readFileSync(path, 'utf8'),
  });
  const log = programLog('sallyport-injector', settings.logLevel);
  const injector = await startInjector(settings, { log });
  log.info({ port: injector.port, admin: injector.adminPort }, 'the injector listens');
  const stop = () => {
    log.info({}, 'the injector drains and ends');
    setTimeout(() => process.exit(1), drainMs).unref();
    injector.close().then(
      () => process.exit(0),
      () => process.exit(1),
    );
  };
  process.once('SIGTERM', stop);
  process.once('SIGINT', stop);
}

/** Runs the program. */
export function run(): Promise<void> {
  return main().catch((error: Error) => {
    const text = error instanceof SettingsError ? error.message : describeFileError(error);
    process.stderr.write(`sallyport: ${text ?? error.stack}\n`);
    process.exit(1);
  });
}

if (import.meta.main) runMain(run);
