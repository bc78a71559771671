import { Counter, collectDefaultMetrics, Histogram, type Registry } from 'prom-client';
import { counter, gauge } from '../../shared/base/observed-metric.ts';
import type { Outcome } from '../upstream/forwarding.ts';

interface Traffic {
  readonly ingress: { connections(): number };
  readonly authority: { minted(): number; readonly notAfterMs: number };
}

export interface TrafficMetrics {
  /** Reports a request that was sent to an upstream, and its duration. */
  forwarded(outcome: Outcome, seconds: number): void;
}

/**
 * Registers the metrics of the traffic through the sidecar:
 * `sallyport_upstream_requests_total{outcome}` (`answered`, or the code of the failure),
 * `sallyport_upstream_seconds`, `sallyport_response_bytes_total`, `sallyport_connections`,
 * `sallyport_leaves_minted_total`, `sallyport_authority_not_after_seconds` (restart the sidecar
 * before this time), and the process metrics under their usual names.
 */
export function createTrafficMetrics(
  registry: Registry,
  { ingress, authority }: Traffic,
): TrafficMetrics {
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  const requests = new Counter({
    name: 'sallyport_upstream_requests_total',
    help: 'Requests sent to upstreams, by how they ended',
    labelNames: ['outcome'],
    registers,
  });
  const seconds = new Histogram({
    name: 'sallyport_upstream_seconds',
    help: 'From sending a request to the end of its answer',
    buckets: [0.001, 0.005, 0.025, 0.1, 0.5, 1, 5, 30, 120],
    registers,
  });
  const bytes = new Counter({
    name: 'sallyport_response_bytes_total',
    help: 'Bytes of answers passed to the agent',
    registers,
  });
  gauge(
    registry,
    { name: 'sallyport_connections', help: 'Connections that the agent holds open' },
    () => ingress.connections(),
  );
  counter(
    registry,
    { name: 'sallyport_leaves_minted_total', help: 'Leaf certificates minted since start' },
    () => authority.minted(),
  );
  gauge(
    registry,
    {
      name: 'sallyport_authority_not_after_seconds',
      help: 'When the local authority ends, seconds since the Unix epoch; a start within 90 days of it makes a new one',
    },
    () => Math.floor(authority.notAfterMs / 1000),
  );
  return {
    forwarded({ failure, responseBytes }, took) {
      requests.inc({ outcome: failure ?? 'answered' });
      seconds.observe(took);
      bytes.inc(responseBytes);
    },
  };
}
