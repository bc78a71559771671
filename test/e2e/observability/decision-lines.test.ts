import { once } from 'node:events';
import { connect } from 'node:net';
import { ProxyAgent, WebSocket } from 'undici';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePort, until } from '../../support/programs/processes.ts';
import { startWebSocketEcho, type WebSocketEcho } from '../../support/sidecar/websocket-echo.ts';
import {
  type DecisionLine,
  secrets,
  startTelemetryStage,
  type TelemetryStage,
} from './telemetry-stage.ts';

const names = [
  'level',
  'time',
  'pid',
  'hostname',
  'name',
  'msg',
  'decision',
  'reason_code',
  'enforced',
  'tool',
  'host',
  'method',
  'evidence_id',
  'approval_id',
  'duration_ms',
  'trace_id',
].sort();

describe('the log line of a decision', () => {
  let stage: TelemetryStage;
  let echo: WebSocketEcho;
  let proxyPort: number;
  let goneHost: string;

  beforeAll(async () => {
    stage = await startTelemetryStage();
    echo = await startWebSocketEcho();
    const { api, proxyUrl } = stage.bench.separate;
    proxyPort = Number(new URL(proxyUrl).port);
    const feed = { protocol: 'http', host: `127.0.0.1:${echo.port}`, method: 'GET', path: '/live' };
    await api('PUT', '/v1/runtime/bindings/model', { protocol: 'passthrough', host: modelHost() });
    goneHost = `localhost:${await freePort()}`;
    await api('PUT', '/v1/runtime/bindings/gone', { protocol: 'passthrough', host: goneHost });
    await api('PUT', '/v1/runtime/bindings/feed', {
      ...feed,
      body: 'none',
      tool: 'shop.order',
      resource: 'feed:main',
      upgrade: true,
    });
    await until('the last binding is in force', async () => (await openFeed()) === 'open');
  }, 60_000);
  afterAll(async () => {
    await echo?.close();
    await stage?.close();
  });

  const modelHost = () => `localhost:${new URL(stage.bench.url).port}`;

  async function openFeed(): Promise<'open' | 'refused'> {
    const dispatcher = new ProxyAgent({ uri: stage.bench.separate.proxyUrl });
    const socket = new WebSocket(`ws://127.0.0.1:${echo.port}/live`, { dispatcher });
    const outcome = await Promise.race([
      once(socket, 'open').then(() => 'open' as const),
      once(socket, 'error').then(() => 'refused' as const),
    ]);
    socket.close();
    await dispatcher.destroy();
    return outcome;
  }

  /** Sends these bytes; resolves with the sidecar's response up to the end of its head. */
  async function send(head: string): Promise<string> {
    const socket = connect(proxyPort, '127.0.0.1');
    socket.write(head);
    const [chunk] = (await once(socket, 'data')) as [Buffer];
    socket.destroy();
    return chunk.toString('latin1');
  }

  const tunnelTo = (host: string) => send(`CONNECT ${host} HTTP/1.1\r\nHost: ${host}\r\n\r\n`);

  /**
   * Makes a call whose log line is known; resolves with the position of the line when it is
   * printed.
   */
  async function mark(): Promise<number> {
    const { headers } = await stage.bench.pay(1);
    const id = /evidence=(\S+)/.exec(headers.get('sallyport-decision') ?? '')?.[1];
    const place = () => stage.lines().findIndex(({ evidence_id }) => evidence_id === id);
    await until('the line of the call', () => place() >= 0);
    return place();
  }

  /** Runs `act` and returns the log lines that it causes; there must be exactly `count`. */
  async function linesOf(act: () => Promise<unknown>, count: number): Promise<DecisionLine[]> {
    const from = await mark();
    await act();
    const to = await mark();
    const lines = stage.lines().slice(from + 1, to);
    expect(lines).toHaveLength(count);
    return lines;
  }

  it('has the same fields for every decision, and appears once for each allow or deny', async () => {
    const [allowed] = await linesOf(() => stage.order('o1'), 1);
    expect(Object.keys(allowed ?? {}).sort()).toEqual(names);
    expect(allowed).toMatchObject({
      decision: 'allow',
      reason_code: 'stage.allow',
      enforced: true,
      tool: 'shop.order',
      host: new URL(stage.bench.url).host,
      method: 'POST',
      approval_id: null,
      trace_id: null,
    });
    expect(allowed?.evidence_id).toMatch(/^ev_/);
    expect(allowed?.duration_ms).toBeGreaterThan(0);
    const [denied] = await linesOf(() => stage.bench.pay(5000), 1);
    expect(Object.keys(denied ?? {}).sort()).toEqual(names);
    expect(denied).toMatchObject({ decision: 'deny', reason_code: 'policy.no_match' });
  });

  it('appears once for an ambiguous call and once for a request that is not a call', async () => {
    const twins = () => stage.bench.agent.post(stage.bench.url, '{"amount":1,"AMOUNT":2}');
    const [ambiguous] = await linesOf(twins, 1);
    expect(ambiguous).toMatchObject({ decision: 'deny', reason_code: 'args.ambiguous' });
    expect(ambiguous?.evidence_id).toMatch(/^ev_/);
    const [trace] = await linesOf(() => send('TRACE http://a.example/ HTTP/1.1\r\n\r\n'), 1);
    expect(Object.keys(trace ?? {}).sort()).toEqual(names);
    expect(trace).toMatchObject({ decision: 'deny', tool: null, evidence_id: null });
  });

  it('appears once for a call that needs no policy', async () => {
    const list = { jsonrpc: '2.0', id: 1, method: 'tools/list' };
    const accept = 'application/json, text/event-stream';
    const [passed] = await linesOf(() => stage.bench.agent.post(stage.crmUrl, list, { accept }), 1);
    expect(passed).toMatchObject({
      decision: 'allow',
      reason_code: 'binding.mcp_passed',
      tool: 'mcp.crm/tools/list',
    });
  });

  it('appears for a held call at the start of the hold and at the approval, but not when the hold ends without a decision', async () => {
    const { api } = stage.bench.separate;
    const decideNext = async () => {
      let id = 0;
      await until('it waits', async () => {
        const { body } = await api('GET', '/v1/approvals?status=pending');
        id = Number((body.approvals as { id?: number }[])?.[0]?.id ?? 0);
        return id > 0;
      });
      await api('POST', `/v1/approvals/${id}/decide`, { action: 'approve' });
      return id;
    };
    let id = 0;
    const granted = await linesOf(async () => {
      const answer = stage.callTool('export_customers', { recipient: 'a' });
      id = await decideNext();
      await answer;
    }, 2);
    const tool = 'mcp.crm.export_customers';
    expect(granted).toMatchObject([
      { decision: 'require_approval', reason_code: 'stage.require_approval', tool },
      { decision: 'allow', reason_code: 'approval.satisfied', tool, approval_id: id },
    ]);
    // The time that the human takes is not part of the sidecar's duration.
    expect(granted[1]?.duration_ms).toBeLessThan(3_000);
    const unanswered = await linesOf(
      () => stage.callTool('export_customers', { recipient: 'b' }),
      1,
    );
    expect(unanswered).toMatchObject([{ decision: 'require_approval', tool }]);
  }, 30_000);

  it('appears once for a tunnel, whether or not the host is reachable', async () => {
    const passed = { decision: 'allow', reason_code: 'binding.passthrough', method: 'CONNECT' };
    expect(await linesOf(() => tunnelTo(modelHost()), 1)).toMatchObject([
      { ...passed, tool: 'passthrough.model' },
    ]);
    const denials = /^sallyport_decisions_total\{decision="deny",reason_code="upstream/m;
    expect(await linesOf(() => tunnelTo(goneHost), 1)).toMatchObject([
      { ...passed, tool: 'passthrough.gone' },
    ]);
    expect(await stage.metrics()).not.toMatch(denials);
  });

  it('appears once for a WebSocket', async () => {
    const [upgraded] = await linesOf(openFeed, 1);
    expect(upgraded).toMatchObject({ decision: 'allow', tool: 'shop.order', method: 'GET' });
  });

  it('appears once for a call and for a tunnel under a kill switch', async () => {
    for (const tool of ['mcp.crm.lookup_customer', 'passthrough.model']) {
      const body = { kind: 'block_tool', tool, reason: 'test' };
      const { status } = await stage.bench.separate.api('POST', '/v1/runtime/kill-switches', body);
      expect(status).toBe(201);
    }
    const open = () => tunnelTo(modelHost());
    await until('the switch is in force', async () => !(await open()).startsWith('HTTP/1.1 200'));
    const blocked = { decision: 'deny', reason_code: 'runtime.kill_switch' };
    expect(await linesOf(open, 1)).toMatchObject([{ ...blocked, tool: 'passthrough.model' }]);
    const call = () => stage.callTool('lookup_customer', { customer_id: 'c1' });
    expect(await linesOf(call, 1)).toMatchObject([
      { ...blocked, host: new URL(stage.crmUrl).host },
    ]);
    expect(await stage.metrics()).toContain('sallyport_kill_switches_armed 2');
  });

  it('corresponds to exactly one decision in the ledger', async () => {
    await mark();
    const lines = stage.lines().filter(({ evidence_id }) => evidence_id !== null);
    const inLedger = await stage.bench.untilSealed('every decision', (events) => {
      const sealed = new Set(events.map(({ id }) => id));
      return lines.every(({ evidence_id }) => sealed.has(String(evidence_id)));
    });
    const said = lines.map(({ evidence_id, decision, reason_code, tool }) =>
      [evidence_id, decision, reason_code, tool].join(' '),
    );
    const sealed = inLedger
      .filter(({ type, id }) => type === 'decision' && id.startsWith('ev_'))
      .filter(({ data }) => 'method' in data)
      .map(({ id, decision, reason_code, tool }) => [id, decision, reason_code, tool].join(' '));
    expect(said.sort()).toEqual(sealed.sort());
  });

  it('contains no credential, passport, argument, path or query; other output contains none either', async () => {
    const headers = { 'action-passport': secrets.passport, 'action-goal': secrets.argument };
    const host = new URL(stage.bench.url).host;
    const { agent } = stage.bench;
    await linesOf(async () => {
      await stage.order(`${secrets.path}?note=${secrets.query}`, headers);
      await stage.order(`${secrets.path}?note=${secrets.query}`);
      await agent.post(`http://${host}/${secrets.path}?${secrets.query}`, secrets.argument);
      await agent.post(stage.crmUrl, `{"id":"${secrets.argument}"`);
    }, 4);
    const printed = stage.bench.separate.sidecar.output();
    for (const secret of Object.values(secrets)) expect(printed).not.toContain(secret);
  });
});
