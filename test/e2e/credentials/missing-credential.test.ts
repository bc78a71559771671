import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../../support/programs/processes.ts';
import { type FaultBench, startFaultBench } from '../../support/system/fault-bench.ts';

const secret = 'sk_missing_5b0d17c2ee';
let bench: FaultBench;

beforeAll(async () => {
  bench = await startFaultBench();
}, 60_000);
afterAll(() => bench?.close());

const host = () => `127.0.0.1:${bench.upstream.port}`;
const header = 'sallyport-credential';

async function storeCredential(name: string, boundTo: string) {
  const stored = await bench.separate.api('POST', '/v1/credentials', {
    name,
    secret,
    inject: { in: 'bearer' },
    bind: { tools: ['bank.*'], hosts: [boundTo] },
  });
  expect(stored.status).toBe(200);
}

/** Returns the warnings that the sidecar has logged about a binding. */
function warnings(binding: string) {
  const lines = bench.separate.sidecar.output().split('\n');
  return lines
    .filter((line) => line.includes('without a stored credential'))
    .map((line) => JSON.parse(line) as Record<string, unknown>)
    .filter((line) => line.binding === binding);
}

describe('a bound call without a stored credential', () => {
  it('is reported in the log and in the outcome, and the upstream’s 401 is forwarded unchanged', async () => {
    bench.upstream.behave((_req, res) => {
      res.writeHead(401, { 'content-type': 'application/json', 'www-authenticate': 'Bearer' });
      res.end('{"error":"who are you"}');
    });
    for (let count = 0; count < 3; count++) {
      const { status, body, headers } = await bench.pay(1);
      expect({ status, body }).toEqual({ status: 401, body: { error: 'who are you' } });
      expect(headers.get('www-authenticate')).toBe('Bearer');
      expect(headers.get(header)).toBe('none');
    }
    await until('the warning is logged', async () => warnings('pay').length > 0);
    expect(warnings('pay')).toMatchObject([
      { level: 40, binding: 'pay', host: host(), status: 401, credential_host: null },
    ]);
    await bench.untilSealed('the outcome', (events) =>
      events.some(({ data }) => data.credential === 'none' && data.status === 401),
    );
  });

  it('is reported, whatever the response is, if a credential is bound to a similar host; the report names this host', async () => {
    bench.upstream.behave((_req, res) => res.end('{}'));
    const put = await bench.separate.api('PUT', '/v1/runtime/bindings/near', {
      protocol: 'http',
      host: host(),
      method: 'POST',
      path: '/near',
      body: 'json',
      tool: 'bank.pay',
      resource: 'account:main',
    });
    expect(put.status).toBe(200);
    const near = `localhost:${bench.upstream.port}`;
    await storeCredential('near', near);
    await until('the warning is logged', async () => {
      await bench.agent.post(`http://${host()}/near`, { amount: 1 });
      return warnings('near').length > 0;
    });
    expect(warnings('near')).toMatchObject([{ status: 200, credential_host: near }]);
  });

  it('is no longer reported once the credential is bound to the host', async () => {
    await storeCredential('right', host());
    let shown: string | null = 'none';
    await until('the credential is used', async () => {
      shown = (await bench.pay(1)).headers.get(header);
      return bench.upstream.seen.at(-1)?.headers.authorization === `Bearer ${secret}`;
    });
    expect(shown).toBeNull();
    expect(bench.separate.sidecar.output()).not.toContain(secret);
  });

  it('is reported after the credential was removed', async () => {
    const { body } = await bench.separate.api('GET', '/v1/credentials');
    const { credentials } = body as unknown as {
      readonly credentials: readonly { readonly id: string; readonly name: string }[];
    };
    const right = credentials.find(({ name }) => name === 'right');
    const removed = await bench.separate.api('DELETE', `/v1/credentials/${right?.id}`);
    expect(removed.status).toBe(200);
    await until('the sidecar has dropped it', async () => {
      const { headers } = await bench.pay(1);
      return headers.get(header) === 'none';
    });
    expect(bench.upstream.seen.at(-1)?.headers.authorization).toBeUndefined();
  });
});
