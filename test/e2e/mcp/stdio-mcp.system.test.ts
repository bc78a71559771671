import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Client } from '@modelcontextprotocol/sdk/client/index.js';
import type { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  LoggingMessageNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { fetch as fetchThrough, ProxyAgent } from 'undici';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startProgram, until } from '../../support/programs/processes.ts';
import { type Diary, root, startStdioDesk, token } from '../../support/system/stdio-desk.ts';

const desk = await startStdioDesk();
afterAll(desk.close);
const { bench, port, newDiary, environment, bridgeArgs, connected } = desk;

const textOf = (result: object) =>
  (result as { content: readonly { text: string }[] }).content[0]?.text ?? '';

const isAlive = (pid: number) => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

describe('a stdio server behind sallyport mcp', () => {
  let client: Client;
  let diary: Diary;
  let transport: StdioClientTransport;
  beforeAll(async () => {
    ({ client, diary, transport } = await connected());
  });
  // The client's bridge occupies the port that the following tests need.
  afterAll(() => client.close());

  it('performs allowed calls but not denied ones; the decisions on both are sealed', async () => {
    expect(textOf(await client.callTool({ name: 'echo', arguments: { a: 1 } }))).toBe('{"a":1}');
    expect(await client.callTool({ name: 'wipe', arguments: {} })).toMatchObject({
      isError: true,
      structuredContent: { reason_code: 'policy.no_match', decision: 'deny' },
    });
    expect(textOf(await client.callTool({ name: 'echo', arguments: { a: 2 } }))).toBe('{"a":2}');
    expect(diary.read()).toContain('called echo');
    expect(diary.read()).not.toContain('called wipe');
    await bench.untilSealed('all of it', (events) => {
      const of = (tool: string, type: string) =>
        events.filter((event) => event.tool === tool && event.type === type).length;
      return (
        of('mcp.crm.echo', 'execution.result') >= 2 &&
        of('mcp.crm.wipe', 'decision') === 1 &&
        of('mcp.crm.wipe', 'execution.result') === 0 &&
        of('mcp.crm/initialize', 'decision') >= 1
      );
    });
  });

  it('does not receive a resources/read request that no policy allows', async () => {
    await expect(client.readResource({ uri: 'file:///etc/passwd' })).rejects.toThrow(
      'policy.no_match',
    );
    expect(diary.read()).not.toContain('read ');
  });

  it('performs a held call once when a human approves it', async () => {
    const answer = client.callTool({ name: 'refund', arguments: { amount: 7 } });
    const id = await waiting('"amount":7');
    expect(diary.read()).not.toContain('called refund');
    await bench.separate.api('POST', `/v1/approvals/${id}/decide`, { action: 'approve' });
    expect(textOf(await answer)).toBe('{"amount":7}');
    expect(diary.read().match(/called refund/g)).toHaveLength(1);
  });

  it('does not perform a held call that its client cancelled, even if a human approves the call later', async () => {
    const leave = new AbortController();
    const answer = client.callTool({ name: 'refund', arguments: { amount: 8 } }, undefined, {
      signal: leave.signal,
    });
    const id = await waiting('"amount":8');
    leave.abort();
    await expect(answer).rejects.toThrow();
    const before = diary.read().match(/called refund/g)?.length ?? 0;
    // Messages are processed in order: the cancellation precedes this call.
    await client.callTool({ name: 'echo' });
    await bench.separate.api('POST', `/v1/approvals/${id}/decide`, { action: 'approve' });
    await until('the sidecar knows of the grant', async () => (await statusOf(id)) === 'approved');
    await client.callTool({ name: 'echo' });
    expect(diary.read().match(/called refund/g)?.length ?? 0).toBe(before);
  });

  it('does not list a tool that changed since its approval, and calls of that tool are refused', async () => {
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toContain('echo');
    expect(tools.map(({ name }) => name)).not.toContain('shifty');
    expect(await client.callTool({ name: 'shifty' })).toMatchObject({
      isError: true,
      structuredContent: { reason_code: 'tool.manifest_changed' },
    });
    expect(diary.read()).not.toContain('called shifty');
  });

  it('is informed when a kill switch ends a call, and receives no calls until the kill switch is disarmed', async () => {
    const ended = client.callTool({ name: 'wait' }).then(JSON.stringify, String);
    await until('it is under way', () => diary.read().includes('called wait'));
    const { api } = bench.separate;
    const armed = await api('POST', '/v1/runtime/kill-switches', {
      kind: 'block_tool',
      tool: 'mcp.crm.*',
      reason: 'incident',
    });
    // The refusal is in-band if the response had not begun; otherwise the response is truncated.
    expect(await ended).toMatch(
      /ended before the response|closed the connection|"reason_code":"runtime\.kill_switch"/,
    );
    await until('the server stopped working at it', () => diary.read().includes('wait cancelled'));
    expect(await client.callTool({ name: 'echo' })).toMatchObject({
      isError: true,
      structuredContent: { reason_code: 'runtime.kill_switch' },
    });
    await api('DELETE', `/v1/runtime/kill-switches/${armed.body.id}`);
    await until('let go', async () => (await client.callTool({ name: 'echo' })).isError !== true);
    await bench.untilSealed('that the kill switch ended it', (events) =>
      events.some(
        ({ tool, reason_code }) => tool === 'mcp.crm.wait' && reason_code === 'runtime.kill_switch',
      ),
    );
  });

  it('can send log messages, and can send progress that arrives in order before the response', async () => {
    const logged: unknown[] = [];
    client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => {
      logged.push(params.data);
    });
    // The messages are read from the transport, because the SDK drops progress that arrives together with the
    // response.
    const seen: string[] = [];
    const { onmessage } = transport;
    transport.onmessage = (message) => {
      if (!('method' in message)) seen.push('answer');
      else if (message.method === 'notifications/progress') seen.push(message.method);
      onmessage?.(message);
    };
    await client.callTool({ name: 'steps' }, undefined, { onprogress: () => {} });
    if (onmessage !== undefined) transport.onmessage = onmessage;
    expect(seen).toEqual([...Array(3).fill('notifications/progress'), 'answer']);
    await until('the log message', () => logged.includes('all steps'));
  });

  it('can ask its client for roots, sampling and elicitation', async () => {
    client.setRequestHandler(ListRootsRequestSchema, async () => ({
      roots: [{ uri: 'file:///work', name: 'work' }],
    }));
    client.setRequestHandler(CreateMessageRequestSchema, async () => ({
      model: 'm',
      role: 'assistant' as const,
      content: { type: 'text' as const, text: 'hi' },
    }));
    client.setRequestHandler(ElicitRequestSchema, async () => ({
      action: 'accept' as const,
      content: { sure: true },
    }));
    expect(JSON.parse(textOf(await client.callTool({ name: 'ask' })))).toEqual({
      roots: [{ uri: 'file:///work', name: 'work' }],
      sampled: { type: 'text', text: 'hi' },
      elicited: { action: 'accept', content: { sure: true } },
    });
  });

  it('can send and receive large messages, and continues its session after a message above the limit is refused', async () => {
    const big = await client.callTool({ name: 'big', arguments: { bytes: 6_000_000 } });
    expect(textOf(big)).toHaveLength(6_000_000);
    const text = '\u2028é'.repeat(150_000);
    const echoed = await client.callTool({ name: 'echo', arguments: { text } });
    expect(JSON.parse(textOf(echoed))).toEqual({ text });
    const tooLarge = client.callTool({ name: 'echo', arguments: { text: 'x'.repeat(2_000_000) } });
    await expect(tooLarge).rejects.toThrow(/larger than the limit|too_large|closed the connection/);
    expect(textOf(await client.callTool({ name: 'echo' }))).toBe('{}');
  });

  it('answers many concurrent calls, each with its own result', async () => {
    const calls = Array.from({ length: 50 }, (_, n) =>
      client.callTool({ name: 'echo', arguments: { n } }),
    );
    const answers = (await Promise.all(calls)).map((result) => JSON.parse(textOf(result)).n);
    expect(answers).toEqual(Array.from({ length: 50 }, (_, n) => n));
  });

  it('has no Sallyport setting in its environment', async () => {
    const env = textOf(await client.callTool({ name: 'env' }));
    expect(env).toContain('for the server to read');
    expect(env).not.toContain(token);
    expect(env).not.toContain('SALLYPORT_');
  });

  it('cannot be reached by other processes on its port, directly or through the sidecar', async () => {
    const before = diary.read();
    const body = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'echo' } };
    const url = `http://127.0.0.1:${port}/mcp`;
    const direct = await fetch(url, { method: 'POST', body: JSON.stringify(body) });
    expect(direct.status).toBe(403);
    const headers = {
      'mcp-session-id': 'guessed',
      accept: 'application/json, text/event-stream',
    };
    const proxied = await bench.agent.post(url, body, headers);
    expect(proxied.status).toBe(403);
    expect(diary.read()).toBe(before);
  });
});

/** Returns the state of an approval as the sidecar reports it to its agent. */
async function statusOf(id: number): Promise<unknown> {
  const dispatcher = new ProxyAgent({ uri: bench.separate.proxyUrl, proxyTunnel: false });
  const answer = await fetchThrough(`http://sallyport.internal/approvals/${id}`, { dispatcher });
  const { status } = (await answer.json()) as { readonly status?: string };
  await dispatcher.close();
  return status;
}

/** Waits for the pending approval of a call with these arguments; returns its id. */
async function waiting(args: string): Promise<number> {
  let id = 0;
  await until('an approval waits', async () => {
    const { body } = await bench.separate.api('GET', '/v1/approvals?status=pending');
    const open = (body.approvals ?? body.items ?? []) as Record<string, unknown>[];
    const mine = open.find((one) => JSON.stringify(one).includes(args));
    id = Number(mine?.id ?? mine?.approval_id ?? 0);
    return id > 0;
  });
  return id;
}

describe('a client with raw messages', () => {
  let bridge: ReturnType<typeof spawn>;
  let diary: Diary;
  let written = '';
  beforeAll(async () => {
    diary = newDiary();
    bridge = spawn(process.execPath, ['cli/main.ts', 'mcp', ...bridgeArgs(diary)], {
      cwd: root,
      env: environment(),
      stdio: ['pipe', 'pipe', 'ignore'],
    });
    bridge.stdout?.on('data', (chunk) => {
      written += chunk;
    });
    await until('it stands', () => diary.read().includes('started'));
  });
  afterAll(async () => {
    const ended = once(bridge, 'exit');
    bridge.stdin?.end();
    await ended;
  });

  const lines = () => written.split('\n').slice(0, -1);
  /** Sends a line; resolves with the single line of the response. */
  async function ask(line: string): Promise<Record<string, never>> {
    const before = lines().length;
    bridge.stdin?.write(`${line}\n`);
    await until('an answer', () => lines().length > before);
    return JSON.parse(lines()[before] ?? '');
  }
  const call = (more: string) => `{"jsonrpc":"2.0","method":"tools/call",${more}}`;

  it.each([
    ['two names', call('"id":1,"params":{"name":"echo","name":"wipe"}')],
    ['two methods', `{"method":"ping",${call('"id":2,"params":{"name":"wipe"}').slice(1)}`],
    ['a similar letter', call('"id":3,"params":{"name":"echo","Name":"wipe"}')],
    ['a batch', `[${call('"id":4,"params":{"name":"wipe"}')}]`],
    ['invalid JSON', 'tools/call wipe'],
    [
      'a number that changes when parsed',
      call('"id":5,"params":{"name":"echo","arguments":{"n":1e400}}'),
    ],
    ['a denied name', call('"id":6,"params":{"name":"wipe"}')],
  ])('cannot disguise a call as another one, and gets an error: %s', async (_what, line) => {
    const { error, result } = await ask(line);
    expect(error ?? result).toMatchObject(
      error === undefined ? { isError: true } : { code: expect.any(Number) },
    );
    expect(diary.read()).not.toContain('called');
  });

  it.each([
    ['without an id', call('"params":{"name":"wipe"}')],
    ['with an id that is null', call('"id":null,"params":{"name":"wipe"}')],
  ])('cannot call %s', async (_what, line) => {
    bridge.stdin?.write(`${line}\n`);
    // When this line is answered, the previous line has been processed, because lines are processed
    // in order.
    expect(await ask(call('"id":"after","params":{"name":"echo"}'))).toMatchObject({ id: 'after' });
    expect(diary.read()).not.toContain('called wipe');
  });

  it('gets responses in the revision 2026-07-28, without a session', async () => {
    const meta = '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}';
    const params = `"params":{"name":"echo","arguments":{"a":"é"},${meta}}`;
    expect(await ask(call(`"id":7,${params}`))).toMatchObject({ id: 7, result: { content: [{}] } });
    expect(await ask(call(`"id":8,${params.replace('echo', 'wipe')}`))).toMatchObject({
      id: 8,
      result: { isError: true },
    });
  });
});

describe('the end of a stdio session', () => {
  it('after a crash of the server is reported to the client, and the bridge exits with 1', async () => {
    const { client, stderr, transport } = await connected();
    const bridge = transport.pid ?? 0;
    await expect(client.callTool({ name: 'crash' })).rejects.toThrow(
      /The MCP server ended \(exit code 7\)|ended before the response|Connection closed/,
    );
    await until('the bridge has ended', () => !isAlive(bridge));
    expect(stderr()).toContain('The MCP server ended (exit code 7)');
  });

  it('after the exit of the client also ends the server, with SIGKILL if necessary', async () => {
    const diary = newDiary();
    const bridge = startProgram('cli/main.ts', environment(), {
      args: ['mcp', ...bridgeArgs(diary, 'stubborn')],
    });
    // The standard input of this bridge is closed from the start.
    expect(await bridge.exited()).toBe(0);
    expect(isAlive(diary.pid())).toBe(false);
  });

  it('after SIGTERM to the bridge is clean, and also ends the server', async () => {
    const { client, diary, transport } = await connected();
    const closed = new Promise<void>((resolve) => {
      client.onclose = resolve;
    });
    process.kill(transport.pid ?? 0, 'SIGTERM');
    await closed;
    await until('the server is gone', () => !isAlive(diary.pid()));
    expect(diary.read()).toContain('input ended');
  });
});

describe('a bridge that cannot start', () => {
  const run = async (args: string[], env: Record<string, string> = {}) => {
    const bridge = startProgram(
      'cli/main.ts',
      { ...environment(), ...env },
      { args: ['mcp', ...args] },
    );
    return { code: await bridge.exited(), text: bridge.output() };
  };
  it.each<[string, string[], Record<string, string>, RegExp]>([
    [
      'no binding',
      ['--name', 'none', '--', 'true'],
      {},
      /no MCP binding none.*PUT .*127\.0\.0\.1/s,
    ],
    // The error must not suggest a PUT command, which would overwrite the binding that other calls
    // use.
    [
      'a binding of another protocol',
      ['--name', 'pay', '--', 'true'],
      {},
      /^(?!.*PUT).*binding pay has the protocol http.*with another name/s,
    ],
    ['a binding with another host', ['--name', 'far', '--', 'true'], {}, /mcp\.example.*loopback/],
    ['an unknown command', ['--name', 'crm', '--', '/none/such'], {}, /Cannot start \/none\/such/],
    [
      'no sidecar at the address',
      ['--name', 'crm', '--', 'true'],
      { SALLYPORT_PROXY_PORT: '1' },
      /does not answer at http:\/\/127\.0\.0\.1:1.*SALLYPORT_PROXY_PORT/,
    ],
  ])(
    'exits with 1 and reports the cause without a stack trace: %s',
    async (_what, args, env, says) => {
      const { code, text } = await run(args, env);
      expect([code, text]).toEqual([1, expect.stringMatching(says)]);
      expect(text).not.toContain('    at ');
    },
  );

  it.each([
    ['no command', ['--name', 'crm'], /Missing required argument 'command'.\nUsage: sallyport mcp/],
    ['no name', ['--', 'true'], /Missing required option '--name <name>'.\nUsage: sallyport mcp/],
  ])('exits with 2 and prints the usage: %s', async (_what, args, says) => {
    const { code, text } = await run(args);
    expect([code, text]).toEqual([2, expect.stringMatching(says)]);
  });

  it('names the disabled agent as the cause if the agent is disabled, and does not suggest a new binding', async () => {
    const { api, agentId } = bench.separate;
    const refusals = async () => (await run(['--name', 'crm', '--', 'true'])).text;
    await api('PATCH', `/v1/agents/${agentId}`, { disabled: true });
    await until('it is named', async () => (await refusals()).includes('(agent.disabled)'));
    expect(await refusals()).not.toContain('PUT');
    await api('PATCH', `/v1/agents/${agentId}`, { disabled: false });
  });
});
