import { once } from 'node:events';
import { createServer } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { fetch, ProxyAgent } from 'undici';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../../support/programs/processes.ts';
import { answerOnce, connectWithHello } from '../../support/sidecar/client-hello.ts';
import { Cleanup, httpsUpstream, listening, testAuthority } from '../../support/sidecar/proxy.ts';
import { rawClient } from '../../support/sidecar/raw-client.ts';
import { type FaultBench, startFaultBench } from '../../support/system/fault-bench.ts';

/** Processes on real Postgres and Redis, and a passthrough model provider. */
describe('a passthrough host', () => {
  const cleanup = new Cleanup();
  let bench: FaultBench;
  let ca: string;
  let host: string;
  let silentHost: string;

  beforeAll(async () => {
    bench = await startFaultBench();
    const authority = testAuthority(cleanup);
    ca = authority.certPem;
    const port = await httpsUpstream(cleanup, authority, (_, res) => res.end('hi'), 'localhost');
    host = `localhost:${port}`;
    silentHost = `localhost:${await listening(createServer(answerOnce), cleanup)}`;
    for (const [name, bound] of Object.entries({ model: host, silent: silentHost })) {
      const body = { protocol: 'passthrough', host: bound };
      await bench.separate.api('PUT', `/v1/runtime/bindings/${name}`, body);
    }
    await until('the bindings are in force', async () => {
      const client = await rawClient(proxyPort(), connectWithHello(silentHost, 'localhost'));
      await until('it is answered', () => client.text().includes('\r\n\r\n'));
      client.socket.destroy();
      return client.text().endsWith('\r\n\r\nx');
    });
  }, 90_000);
  afterAll(async () => {
    await cleanup.run();
    await bench?.close();
  });

  const proxyPort = () => Number(new URL(bench.separate.proxyUrl).port);
  const withSni = (sni: string) => (events: Awaited<ReturnType<FaultBench['events']>>) =>
    events.filter(({ data }) => data.sni === sni);

  it('is reached by TLS with its own name as SNI, and this name is in the evidence', async () => {
    const dispatcher = new ProxyAgent({ uri: bench.separate.proxyUrl, requestTls: { ca } });
    expect(await (await fetch(`https://${host}/`, { dispatcher })).text()).toBe('hi');
    await dispatcher.close();
    const isKept = (event: { tool?: string; type: string }) =>
      event.tool === 'passthrough.model' && event.type === 'execution.result';
    const events = await bench.untilSealed('the end is sealed', (all) => all.some(isKept));
    expect(events.find(isKept)).toMatchObject({ data: { sni: 'localhost' } });
  });

  it('cannot be used to reach another host at the same address: the tunnel is denied, logged and recorded', async () => {
    const client = await rawClient(proxyPort(), connectWithHello(silentHost, 'evil.example'));
    expect(await client.closed).toBe(
      'HTTP/1.1 200 Connection Established\r\n\r\n\x15\x03\x01\x00\x02\x02p',
    );
    const named = withSni('evil.example');
    const events = await bench.untilSealed('both are sealed', (all) => named(all).length === 2);
    const reason_code = 'proxy.sni_mismatch';
    expect(named(events)).toMatchObject([
      { type: 'decision', decision: 'deny', reason_code },
      { type: 'execution.result', reason_code },
    ]);
    expect(bench.separate.sidecar.output()).toContain(reason_code);
  });

  it('causes a TLS alert if the SNI differs from the host of CONNECT', async () => {
    const client = await rawClient(proxyPort(), '');
    client.socket.setEncoding('latin1');
    client.socket.write(`CONNECT ${host} HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
    await until('it is open', () => client.text().includes('200 Connection'));
    client.socket.removeAllListeners('data');
    const secured = connectTls({ socket: client.socket, servername: 'evil.example', ca });
    const [error] = await once(secured, 'error');
    expect(error).toMatchObject({ code: 'ERR_SSL_TLSV1_UNRECOGNIZED_NAME' });
  });
});
