import { Counter, Histogram, type Registry } from 'prom-client';

/** Measures every batch, whether it was written or failed. */
export interface SealMeter {
  sealed(events: number, seconds: number): void;
  failed(events: number): void;
}

export function createSealMeter(registry: Registry): SealMeter {
  const registers = [registry];
  const sealed = new Counter({
    name: 'sallyport_events_sealed_total',
    help: 'Events sealed into the ledger by this process',
    registers,
  });
  const failed = new Counter({
    name: 'sallyport_seal_failures_total',
    help: 'Events whose sealing failed; they wait in the outbox or are retried',
    registers,
  });
  const seconds = new Histogram({
    name: 'sallyport_seal_seconds',
    help: 'Time to seal one batch of events',
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5],
    registers,
  });
  return {
    sealed(events, took) {
      sealed.inc(events);
      seconds.observe(took);
    },
    failed: (events) => failed.inc(events),
  };
}
