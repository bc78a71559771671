// Prints the metrics that each program registers, as JSON: starts both programs in one process, and
// records each registration. The labels of a metric that has no value yet are known only from the
// metric itself.
import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Registry } from 'prom-client';
import { startEmbedded } from '../cli/embedded/start-embedded.ts';
import { createMetrics } from '../injector/server/metrics.ts';

export interface RegisteredMetric {
  readonly name: string;
  readonly help: string;
  readonly type: 'counter' | 'gauge' | 'histogram' | 'summary';
  readonly labelNames: readonly string[];
}

/** Lists of the control plane, which starts first, of the sidecar, and of the injector. */
export type MetricsOfPrograms = readonly [
  controlPlane: readonly RegisteredMetric[],
  sidecar: readonly RegisteredMetric[],
  injector: readonly RegisteredMetric[],
];

const registered = new Map<Registry, RegisteredMetric[]>();
const register = Registry.prototype.registerMetric;
Registry.prototype.registerMetric = function noteMetric(metric) {
  // Read at the end: the type is set after registration.
  const noted = metric as unknown as RegisteredMetric;
  registered.set(this, [...(registered.get(this) ?? []), noted]);
  return register.call(this, metric);
};

const folder = fs.mkdtempSync(join(tmpdir(), 'metrics-'));
const anyPort = '0';
const embedded = await startEmbedded({
  SALLYPORT_DATA_DIR: folder,
  SALLYPORT_API_PORT: anyPort,
  SALLYPORT_PROXY_PORT: anyPort,
  SALLYPORT_PROXY_ADMIN_PORT: anyPort,
  // Enables the transparent mode, because it registers its own metrics.
  SALLYPORT_TRANSPARENT_PORT: anyPort,
  SALLYPORT_DNS_PORT: anyPort,
  SALLYPORT_LOG_LEVEL: 'silent',
  // Enables tracing, because it registers a metric. Nothing is traced here, so nothing is sent.
  OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9',
});
await embedded.close();
fs.rmSync(folder, { recursive: true });
createMetrics(new Registry());
const [controlPlane = [], sidecar = [], injector = []] = [...registered.values()].map((metrics) =>
  metrics.map(({ name, help, type, labelNames }) => ({ name, help, type, labelNames })),
);
process.stdout.write(JSON.stringify([controlPlane, sidecar, injector] satisfies MetricsOfPrograms));
