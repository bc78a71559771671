import { startCrmServer } from '../../../cli/demo/crm-server.ts';
import { until } from '../../support/programs/processes.ts';
import { startFaultBench } from '../../support/system/fault-bench.ts';

/** Values that must not appear anywhere. */
export const secrets = {
  credential: 'sk_live_must_not_be_seen',
  argument: 'argument_must_not_be_seen',
  passport: 'passport_must_not_be_seen',
  query: 'query_must_not_be_seen',
  path: 'path_must_not_be_seen',
};

/** The log line of a decision. */
export interface DecisionLine extends Record<string, unknown> {
  readonly decision: string;
  readonly reason_code: string;
  readonly tool: string | null;
  readonly evidence_id: string | null;
}

/**
 * Starts a control plane and a sidecar as separate processes, with a bound REST call, an MCP
 * server, and a held call.
 */
export async function startTelemetryStage(sidecarEnv: Readonly<Record<string, string>> = {}) {
  const bench = await startFaultBench({ SALLYPORT_HOLD_MS: '3000', ...sidecarEnv });
  const crm = await startCrmServer();
  const { api } = bench.separate;
  const host = new URL(bench.url).host;
  const crmHost = `127.0.0.1:${crm.port}`;
  await api('PUT', '/v1/runtime/bindings/crm', { protocol: 'mcp', host: crmHost, path: '/mcp' });
  await api('PUT', '/v1/runtime/bindings/order', {
    protocol: 'http',
    host,
    method: 'POST',
    path: '/orders/{order_id}{?note}',
    body: 'json',
    tool: 'shop.order',
    resource: 'order:{order_id}',
  });
  await api('POST', '/v1/credentials', {
    name: 'bank',
    secret: secrets.credential,
    inject: { in: 'bearer' },
    bind: { tools: ['shop.*', 'mcp.crm.*'], hosts: [host, crmHost] },
  });
  await api('POST', '/v1/policies', { name: 'stage', publish: true, rules_json: stagePolicy });
  const stage = {
    bench,
    crmUrl: `http://${crmHost}/mcp`,
    order: (id: string, headers: Record<string, string> = {}) =>
      bench.agent.post(`http://${host}/orders/${id}`, { text: secrets.argument }, headers),
    /** Sends one `tools/call` to the MCP server, without a session. */
    callTool: (name: string, args: object, headers: Record<string, string> = {}) =>
      bench.agent.post(
        stage.crmUrl,
        { jsonrpc: '2.0', id: 7, method: 'tools/call', params: { name, arguments: args } },
        { accept: 'application/json, text/event-stream', ...headers },
      ),
    /** Returns the log lines of decisions that were printed so far. */
    lines(): DecisionLine[] {
      return bench.separate.sidecar
        .output()
        .split('\n')
        .filter((line) => line.includes('"msg":"decision"'))
        .map((line) => JSON.parse(line) as DecisionLine);
    },
    metrics: async (): Promise<string> =>
      (await fetch(`${bench.separate.adminUrl}/metrics`)).text(),
    async close() {
      await bench.close();
      await crm.close();
    },
  };
  await until('the bindings are in force', async () => (await stage.order('o1')).status === 200);
  return stage;
}

export type TelemetryStage = Awaited<ReturnType<typeof startTelemetryStage>>;

const ruleFor = (decision: string, tool: string) => ({
  name: `${decision} ${tool}`,
  decision,
  reason: `stage.${decision}`,
  when: { all: [{ path: 'tool.name', operator: '==', value: tool }] },
});

const stagePolicy = {
  id: 'stage',
  version: 1,
  rules: [
    ruleFor('allow', 'shop.order'),
    ruleFor('allow', 'mcp.crm.lookup_customer'),
    ruleFor('require_approval', 'mcp.crm.export_customers'),
  ],
};
