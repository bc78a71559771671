import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

interface Attribute {
  readonly key: string;
  readonly value: Readonly<Record<string, unknown>>;
}

/** A span in OTLP's JSON format, with its attributes as plain values. */
export interface CollectedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly name: string;
  /** Kind of the span: 2 for a server span, 3 for a client span. */
  readonly kind: number;
  readonly status: { readonly code?: number };
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly resource: Readonly<Record<string, unknown>>;
}

export interface Collector {
  readonly url: string;
  readonly spans: readonly CollectedSpan[];
  /** Returns all received requests as text. */
  text(): string;
  close(): Promise<void>;
}

interface OtlpSpan extends Omit<CollectedSpan, 'attributes' | 'resource'> {
  readonly attributes: readonly Attribute[];
}

interface OtlpBatch {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly Attribute[] };
    readonly scopeSpans: readonly { readonly spans: readonly OtlpSpan[] }[];
  }[];
}

/** Starts the OTLP/HTTP port of an OpenTelemetry collector. It accepts only JSON. */
export async function startCollector(): Promise<Collector> {
  const spans: CollectedSpan[] = [];
  let text = '';
  const server = createServer(async (req, res) => {
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks).toString('utf8');
    text += body;
    spans.push(...spansOf(JSON.parse(body) as OtlpBatch));
    res.writeHead(200, { 'content-type': 'application/json' }).end('{}');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    text: () => text,
    close: async () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

function spansOf({ resourceSpans }: OtlpBatch): CollectedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans
      .flatMap(({ spans }) => spans)
      .map((span) => ({
        ...span,
        attributes: plain(span.attributes),
        resource: plain(resource.attributes),
      })),
  );
}

/**
 * Unwraps attribute values, which are wrapped in their type: `{stringValue}`, `{intValue}`,
 * `{boolValue}`.
 */
function plain(attributes: readonly Attribute[]): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));
}
