import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

export interface InjectorMetrics {
  answered(path: string, status: number, seconds: number): void;
  refused(code: string): void;
  certificate(notAfterMs: number): void;
}

export function createMetrics(registry: Registry): InjectorMetrics {
  const registers = [registry];
  const reviews = new Histogram({
    name: 'sallyport_injector_review_seconds',
    help: 'Time of admission reviews, by path and HTTP status.',
    labelNames: ['path', 'status'] as const,
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5],
    registers,
  });
  const refusals = new Counter({
    name: 'sallyport_injector_refusals_total',
    help: 'Problems for which the guard refused requests, by reason code.',
    labelNames: ['code'] as const,
    registers,
  });
  const expiry = new Gauge({
    name: 'sallyport_injector_certificate_expiry_seconds',
    help: 'When the certificate of the webhook expires, as a Unix time.',
    registers,
  });
  return {
    answered: (path, status, seconds) => reviews.observe({ path, status: String(status) }, seconds),
    refused: (code) => refusals.inc({ code }),
    certificate: (notAfterMs) => expiry.set(notAfterMs / 1000),
  };
}
