import { Counter, collectDefaultMetrics, Histogram, Registry } from 'prom-client';

/** HTTP metrics. Labels are operation ids and status classes, never paths, tenants or arguments. */
export interface Metrics {
  readonly registry: Registry;
  observe(operationId: string, status: number, seconds: number): void;
}

export function createMetrics(registry: Registry = new Registry()): Metrics {
  collectDefaultMetrics({ register: registry });
  const labelNames = ['operation', 'status_class'] as const;
  const requests = new Counter({
    name: 'sallyport_http_requests_total',
    help: 'Requests answered, by operation and status class.',
    labelNames,
    registers: [registry],
  });
  const seconds = new Histogram({
    name: 'sallyport_http_request_seconds',
    help: 'Time from the first byte of a request to the last byte of its response.',
    labelNames,
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10],
    registers: [registry],
  });
  return {
    registry,
    observe: (operation, status, duration) => {
      const labels = { operation, status_class: `${Math.floor(status / 100)}xx` };
      requests.inc(labels);
      seconds.observe(labels, duration);
    },
  };
}
