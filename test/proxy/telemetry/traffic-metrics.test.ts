import { Registry } from 'prom-client';
import { expect, it } from 'vitest';
import { createTrafficMetrics } from '../../../proxy/telemetry/traffic-metrics.ts';

it('traffic metrics count calls by outcome, and have no other label', async () => {
  const registry = new Registry();
  const metrics = createTrafficMetrics(registry, {
    ingress: { connections: () => 3 },
    authority: { minted: () => 7, notAfterMs: 1_800_000_000_500 },
  });
  metrics.forwarded({ status: 200, responseBytes: 10 }, 0.01);
  metrics.forwarded({ status: 500, responseBytes: 5 }, 0.01);
  metrics.forwarded(
    { failure: 'upstream.reset', detail: 'https://secret.example/path', responseBytes: 0 },
    0.2,
  );
  const text = await registry.metrics();
  expect(text).toContain('sallyport_upstream_requests_total{outcome="answered"} 2');
  expect(text).toContain('sallyport_upstream_requests_total{outcome="upstream.reset"} 1');
  expect(text).toContain('sallyport_response_bytes_total 15');
  expect(text).toContain('sallyport_upstream_seconds_count 3');
  expect(text).toContain('sallyport_connections 3');
  // The page is read twice, because reading it must not increase a counter that is copied from another
  // source.
  expect(await registry.metrics()).toContain('sallyport_leaves_minted_total 7');
  expect(text).toContain('sallyport_authority_not_after_seconds 1800000000');
  expect(text).toContain('process_resident_memory_bytes');
  expect(text).not.toContain('secret.example');
});
