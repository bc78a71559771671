import { Registry } from 'prom-client';
import { expect, it } from 'vitest';
import { createEvidenceMetrics } from '../../../proxy/telemetry/evidence-metrics.ts';
import { manualClock } from '../../support/base/manual-clock.ts';

it('a removed spool folder leaves the other metrics readable', async () => {
  const registry = new Registry();
  const clock = manualClock();
  const occurred_at = new Date(clock.now() - 90_000).toISOString();
  createEvidenceMetrics(registry, {
    spool: { depth: 3, folder: '/nowhere/at/all' },
    uploader: { failures: 2, oldestUnsent: JSON.stringify({ event: { occurred_at } }) },
    disk: { freeBytes: async () => 12_000 },
    bytesMax: 1000,
    clock,
  });
  const page = await registry.metrics();
  expect(page).toMatch(/^sallyport_spool_bytes Nan$/m);
  expect(page).toMatch(/^sallyport_spool_records 3$/m);
  expect(page).toMatch(/^sallyport_spool_free_bytes 12000$/m);
  expect(page).toMatch(/^sallyport_spool_oldest_record_age_seconds 90$/m);
  expect(page).toMatch(/^sallyport_evidence_upload_failures_total 2$/m);
});
