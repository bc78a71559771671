import { setTimeout as delay } from 'node:timers/promises';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import {
  defaultResource,
  detectResources,
  envDetector,
  resourceFromAttributes,
} from '@opentelemetry/resources';
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  type Sampler,
  type SpanExporter,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import { Counter, type Registry } from 'prom-client';
import type { Log } from '../../shared/base/log.ts';
import type { Tracing } from '../call/tracing.ts';
import type { TracingSettings } from '../settings/config.ts';
import { beginCallTrace } from './call-trace.ts';

export interface TracingOptions {
  readonly settings: TracingSettings;
  readonly version: string;
  readonly sidecarId: string;
  readonly registry: Registry;
  readonly log: Log;
}

/** Time limit at shutdown, because the collector may be unavailable. */
const closeMs = 1_500;

/**
 * Exports spans to the collector in batches, independently of calls. Spans are dropped if the
 * collector is unavailable or slow; the exporter reads address, headers and certificates from the
 * environment.
 */
export function startTracing(options: TracingOptions): Tracing {
  const { settings, version, sidecarId } = options;
  const resource = defaultResource()
    .merge(
      resourceFromAttributes({
        'service.name': 'sallyport-sidecar',
        'service.version': version,
        'service.instance.id': sidecarId,
      }),
    )
    .merge(detectResources({ detectors: [envDetector] }));
  const processor = new BatchSpanProcessor({
    exporter: counted(new OTLPTraceExporter(), options),
    scheduledDelayMillis: settings.batchDelayMs,
    exportTimeoutMillis: 10_000,
  });
  const provider = new TracerProvider({
    resource,
    sampler: samplerOf(settings),
    spanProcessors: [processor],
    spanLimits: { attributeValueLengthLimit: 256 },
  });
  const tracer = provider.getTracer('sallyport', version);
  return {
    begin: (exchange) => beginCallTrace(tracer, exchange),
    async close() {
      const patience = new AbortController();
      const { signal } = patience;
      await Promise.race([
        provider.shutdown().catch(() => {}),
        delay(closeMs, undefined, { signal }).catch(() => {}),
      ]);
      patience.abort();
    },
  };
}

function samplerOf({ sampler, ratio }: TracingSettings): Sampler {
  const name = sampler.replace('parentbased_', '');
  const root =
    name === 'always_off'
      ? new AlwaysOffSampler()
      : name === 'traceidratio'
        ? new TraceIdRatioBasedSampler(ratio)
        : new AlwaysOnSampler();
  return sampler.startsWith('parentbased_') ? new ParentBasedSampler({ root }) : root;
}

/** Counts and logs failed exports, which the SDK does not report. */
function counted(
  exporter: SpanExporter,
  { registry, log }: Pick<TracingOptions, 'registry' | 'log'>,
): SpanExporter {
  const exports = new Counter({
    name: 'sallyport_trace_exports_total',
    help: 'Batches of spans, by whether the collector took them',
    labelNames: ['outcome'],
    registers: [registry],
  });
  let isTold = false;
  return {
    export(spans, done) {
      exporter.export(spans, (result) => {
        const isSent = result.code === 0;
        exports.inc({ outcome: isSent ? 'sent' : 'failed' });
        // Logged once per outage, because a collector may be unavailable for long.
        if (!isSent && !isTold) log.warn({ spans: spans.length }, 'spans could not be exported');
        isTold = !isSent;
        done(result);
      });
    },
    forceFlush: async () => exporter.forceFlush?.(),
    shutdown: () => exporter.shutdown(),
  };
}
