import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../../support/programs/processes.ts';
import { type FaultBench, startFaultBench } from '../../support/system/fault-bench.ts';

const secret = 'sk_transport_9f2c81d07a';
const rules = {
  id: 'send',
  version: 1,
  rules: [
    {
      name: 'send',
      decision: 'allow',
      reason: 'test.send',
      when: { all: [{ path: 'tool.name', operator: '==', value: 'send.it' }] },
    },
  ],
};

let bench: FaultBench;
let own: string;
beforeAll(async () => {
  bench = await startFaultBench();
  const { api } = bench.separate;
  own = `127.0.0.1:${bench.upstream.port}`;
  const hosts = [own, 'localhost', 'api.example'];
  for (const [index, host] of hosts.entries()) {
    const put = await api('PUT', `/v1/runtime/bindings/send${index}`, {
      protocol: 'http',
      host,
      method: 'POST',
      path: '/send',
      body: 'json',
      tool: 'send.it',
      resource: 'account:main',
    });
    expect(put.status).toBe(200);
  }
  const credential = await api('POST', '/v1/credentials', {
    name: 'send',
    secret,
    inject: { in: 'bearer' },
    bind: { tools: ['send.*'], hosts },
  });
  expect(credential.status).toBe(200);
  await api('POST', '/v1/policies', { name: 'send', publish: true, rules_json: rules });
  await until('the credential is used', async () => {
    await send(own);
    return bench.upstream.seen.at(-1)?.headers.authorization === `Bearer ${secret}`;
  });
}, 60_000);
afterAll(() => bench?.close());

const send = (host: string) => bench.agent.post(`http://${host}/send`, { amount: 1 });

describe('a credential', () => {
  it('is sent without TLS only to the loopback port to which it is bound', async () => {
    expect((await send(own)).status).toBe(200);
  });

  // The agent itself may listen on these addresses. The credential is bound to port 443, where TLS
  // identifies the host.
  it.each(['localhost', 'localhost:80', 'api.example'])(
    'is not sent without TLS to http://%s',
    async (host) => {
      expect(await send(host)).toMatchObject({
        status: 403,
        body: { reason_code: 'credential.insecure_transport' },
      });
    },
  );
});
