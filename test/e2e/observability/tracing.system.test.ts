import { createServer } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePort, until } from '../../support/programs/processes.ts';
import {
  type CollectedSpan,
  type Collector,
  startCollector,
} from '../../support/sidecar/collector.ts';
import { Cleanup, listening } from '../../support/sidecar/proxy.ts';
import { startFaultBench } from '../../support/system/fault-bench.ts';
import { secrets, startTelemetryStage, type TelemetryStage } from './telemetry-stage.ts';

const server = 2;
const client = 3;
const failed = 2;
let traces = 0;

/** Returns the trace context of an agent's own span, in a new trace. */
function agentSpan(flags = '01') {
  traces += 1;
  const traceId = traces.toString(16).padStart(32, '5');
  const spanId = traces.toString(16).padStart(16, '7');
  return { traceId, spanId, headers: { traceparent: `00-${traceId}-${spanId}-${flags}` } };
}

describe('traces', () => {
  let collector: Collector;
  let stage: TelemetryStage;

  beforeAll(async () => {
    collector = await startCollector();
    stage = await startTelemetryStage({
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
      OTEL_BSP_SCHEDULE_DELAY: '50',
    });
  }, 60_000);
  afterAll(async () => {
    await stage?.close();
    await collector?.close();
  });

  /** Returns the spans of a trace once its server span, which ends last, has arrived. */
  async function spansOf(traceId: string) {
    const ofTrace = () => collector.spans.filter((span) => span.traceId === traceId);
    const find = (kind: number) => ofTrace().find((span) => span.kind === kind);
    await until(`the trace ${traceId}`, () => find(server) !== undefined);
    return { server: find(server) as CollectedSpan, client: find(client) };
  }

  it('contain a server span and a client span for an allowed call, and the upstream receives the client span’s context', async () => {
    const agent = agentSpan();
    const answer = await stage.order('o77', { ...agent.headers, tracestate: 'vendor=1' });
    expect(answer.status).toBe(200);
    const spans = await spansOf(agent.traceId);
    expect(spans.server.parentSpanId).toBe(agent.spanId);
    expect(spans.client?.parentSpanId).toBe(spans.server.spanId);
    expect([spans.server.name, spans.client?.name]).toEqual(
      Array(2).fill('POST /orders/{order_id}'),
    );
    const common = {
      'http.request.method': 'POST',
      'http.response.status_code': 200,
      'server.address': '127.0.0.1',
      'server.port': Number(new URL(stage.bench.url).port),
      'url.scheme': 'http',
      'gen_ai.tool.name': 'shop.order',
      'gen_ai.operation.name': 'execute_tool',
    };
    const evidence = /evidence=(\S+)/.exec(answer.headers.get('sallyport-decision') ?? '')?.[1];
    expect(spans.server.attributes).toEqual({
      ...common,
      'network.protocol.version': '1.1',
      'http.route': '/orders/{order_id}',
      'sallyport.decision': 'allow',
      'sallyport.reason_code': 'stage.allow',
      'sallyport.enforced': true,
      'sallyport.evidence_id': evidence,
    });
    expect(spans.client?.attributes).toEqual({
      ...common,
      'url.template': '/orders/{order_id}',
    });
    expect(spans.server.resource).toMatchObject({
      'service.name': 'sallyport-sidecar',
      'deployment.environment.name': 'test',
    });
    const heard = stage.bench.upstream.seen.at(-1)?.headers;
    expect(heard?.traceparent).toBe(`00-${agent.traceId}-${spans.client?.spanId}-01`);
    expect(heard?.tracestate).toBe('vendor=1');
  });

  it('contain one span with the reason, and no error, for a denied call', async () => {
    const agent = agentSpan();
    expect((await stage.bench.pay(5000, agent.headers)).status).toBe(403);
    const spans = await spansOf(agent.traceId);
    expect(spans.client).toBeUndefined();
    expect(spans.server.status.code ?? 0).toBe(0);
    expect(spans.server.attributes).toMatchObject({
      'http.response.status_code': 403,
      'http.route': '/pay',
      'sallyport.decision': 'deny',
      'sallyport.reason_code': 'policy.no_match',
    });
  });

  it('name an MCP call by its method and tool; a refused MCP call is named by its method only and marked as a tool error', async () => {
    const [allowed, denied] = [agentSpan(), agentSpan()];
    const version = { 'mcp-protocol-version': '2025-06-18' };
    const args = { customer_id: 'c1' };
    await stage.callTool('lookup_customer', args, { ...allowed.headers, ...version });
    await stage.callTool('made_up_by_the_agent', {}, denied.headers);
    const good = await spansOf(allowed.traceId);
    expect([good.server.name, good.client?.name]).toEqual(
      Array(2).fill('tools/call lookup_customer'),
    );
    const mcp = {
      'mcp.method.name': 'tools/call',
      'mcp.protocol.version': '2025-06-18',
      'gen_ai.tool.name': 'lookup_customer',
      'jsonrpc.request.id': '7',
    };
    expect(good.server.attributes).toMatchObject(mcp);
    expect(good.client?.attributes).toMatchObject(mcp);
    expect(good.client?.parentSpanId).toBe(good.server.spanId);
    const bad = await spansOf(denied.traceId);
    expect(bad.client).toBeUndefined();
    expect(bad.server.name).toBe('tools/call');
    expect(bad.server.status.code).toBe(failed);
    expect(bad.server.attributes).toMatchObject({
      'http.response.status_code': 200,
      'error.type': 'tool_error',
      'sallyport.reason_code': 'policy.no_match',
    });
  });

  it('mark the client span and the server span as errors if the upstream fails', async () => {
    const agent = agentSpan();
    stage.bench.upstream.behave((req) => req.socket.destroy());
    expect((await stage.order('o1', agent.headers)).status).toBe(502);
    stage.bench.upstream.behave((_req, res) => res.end('{}'));
    const spans = await spansOf(agent.traceId);
    expect(spans.client?.status.code).toBe(failed);
    expect(spans.client?.attributes['error.type']).toBe('upstream.reset');
    expect(spans.server.status.code).toBe(failed);
    expect(spans.server.attributes['http.response.status_code']).toBe(502);
  });

  it('begin a new trace if the context is malformed, and keep an unsampled context unsampled', async () => {
    await stage.order('o2', { traceparent: '00-zz-7-01' });
    const heard = stage.bench.upstream.seen.at(-1)?.headers.traceparent;
    expect(heard).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/);
    const { server: own } = await spansOf(String(heard).slice(3, 35));
    expect(own.parentSpanId).toBeUndefined();
    const quiet = agentSpan('00');
    await stage.order('o3', quiet.headers);
    const passedOn = String(stage.bench.upstream.seen.at(-1)?.headers.traceparent);
    expect(passedOn.slice(0, 35)).toBe(`00-${quiet.traceId}`);
    expect(passedOn.slice(-2)).toBe('00');
    await stage.order('o4', { traceparent: '' });
    expect(collector.spans.filter((span) => span.traceId === quiet.traceId)).toEqual([]);
  });

  it('have an id that is also in the log line of the decision', async () => {
    const agent = agentSpan();
    await stage.order('o5', agent.headers);
    await until('the line', () => stage.lines().some((line) => line.trace_id === agent.traceId));
  });

  it('contain no credential, passport, argument, path or query', async () => {
    const agent = agentSpan();
    const headers = {
      ...agent.headers,
      authorization: `Bearer ${secrets.credential}`,
      cookie: secrets.credential,
      'mcp-session-id': secrets.passport,
      'action-passport': secrets.passport,
      'action-goal': secrets.argument,
    };
    const host = new URL(stage.bench.url).host;
    await stage.order(`${secrets.path}?note=${secrets.query}`, headers);
    await stage.order(`${secrets.path}?note=${secrets.query}`, agent.headers);
    await stage.bench.agent.post(`http://${host}/${secrets.path}`, secrets.argument, headers);
    await stage.bench.agent.post(stage.crmUrl, `{"id":"${secrets.argument}"`, headers);
    const call = {
      jsonrpc: '2.0',
      id: secrets.argument,
      method: `x/${secrets.argument}/1`,
      params: { uri: `file:///${secrets.path}` },
    };
    await stage.bench.agent.post(stage.crmUrl, call, headers);
    await until('all their spans', () => {
      const ofTrace = collector.spans.filter((span) => span.traceId === agent.traceId);
      return ofTrace.filter(({ kind }) => kind === server).length === 5;
    });
    for (const secret of Object.values(secrets)) expect(collector.text()).not.toContain(secret);
  });
});

describe('an unavailable trace collector', () => {
  async function tracedBench(env: Record<string, string>) {
    return startFaultBench({ ...env, OTEL_BSP_SCHEDULE_DELAY: '50' });
  }

  it('delays no call; the sidecar counts the failed exports', async () => {
    const bench = await tracedBench({
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `http://127.0.0.1:${await freePort()}/v1/traces`,
      OTEL_EXPORTER_OTLP_TIMEOUT: '200',
    });
    try {
      expect((await bench.pay(1)).status).toBe(200);
      const page = async () => (await fetch(`${bench.separate.adminUrl}/metrics`)).text();
      await until('it is counted', async () =>
        /sallyport_trace_exports_total\{outcome="failed"\} [1-9]/.test(await page()),
      );
      expect((await bench.pay(2)).status).toBe(200);
    } finally {
      await bench.close();
    }
  }, 60_000);

  it('that never responds does not prevent the sidecar from exiting', async () => {
    const cleanup = new Cleanup();
    const port = await listening(createServer(), cleanup);
    const bench = await tracedBench({ OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}` });
    try {
      expect((await bench.pay(1)).status).toBe(200);
      const began = performance.now();
      expect(await bench.separate.sidecar.stop()).toBe(0);
      // The sidecar waits 1.5 s for the exporter, which would wait for 10 s.
      expect(performance.now() - began).toBeLessThan(8_000);
    } finally {
      await bench.close();
      await cleanup.run();
    }
  }, 60_000);
});
