import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../../support/programs/processes.ts';
import { raw } from '../../support/sidecar/proxy.ts';
import { startUpstream, type Upstream } from '../../support/sidecar/upstream.ts';
import { type FaultBench, startFaultBench } from '../../support/system/fault-bench.ts';

const publicFiles = {
  id: 'files',
  version: 1,
  rules: [
    {
      name: 'public files',
      decision: 'allow',
      reason: 'files.public',
      when: {
        all: [
          { path: 'tool.name', operator: 'matches', value: '^http\\.get\\.' },
          { path: 'resource.id', operator: 'matches', value: '^/public/' },
        ],
      },
    },
    ...['http', 'https'].map((scheme) => ({
      name: `${scheme} only`,
      decision: 'allow',
      reason: 'files.by_scheme',
      when: {
        all: [
          { path: 'resource.id', operator: '==', value: `/only-${scheme}` },
          { path: 'args.scheme', operator: '==', value: scheme },
        ],
      },
    })),
  ],
};

/** Processes on real Postgres and Redis; the second upstream has no binding. */
describe('a host without bindings', () => {
  let bench: FaultBench;
  let upstream: Upstream;

  beforeAll(async () => {
    bench = await startFaultBench();
    upstream = await startUpstream();
    await bench.separate.api('POST', '/v1/policies', {
      name: 'files',
      publish: true,
      rules_json: publicFiles,
    });
    await until('the policy is in force', async () => (await get('/public/a')).includes(' 200 '));
  }, 90_000);
  afterAll(async () => {
    await upstream?.close();
    await bench?.close();
  });

  function get(target: string): Promise<string> {
    const host = `127.0.0.1:${upstream.port}`;
    const head = `GET http://${host}${target} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`;
    return raw(Number(new URL(bench.separate.proxyUrl).port), head);
  }

  it('can be required by a rule to use TLS', async () => {
    expect(await get('/only-http')).toContain(' 200 ');
    const refused = await get('/only-https');
    expect(refused).toContain(' 403 ');
    expect(refused).toContain('policy.no_match');
  });

  it('has refusals that name the judged action and a binding with a similar host', async () => {
    const host = `127.0.0.1:${upstream.port}`;
    const answer = await get('/secret?token=hidden');
    const { error, details } = JSON.parse(answer.slice(answer.indexOf('\r\n\r\n')));
    const bound = new URL(bench.url).host;
    expect(details).toEqual({
      tool: expect.stringContaining('http.get.127.0.0.1'),
      resource: '/secret',
      host,
      bindings: [],
      nearest: { host: bound, binding: 'pay' },
    });
    expect(error).toContain(
      `The host ${host} has no binding for this agent; ${bound} is bound to pay.`,
    );
    expect(answer).not.toContain('hidden');
  });

  it('gets refusals unlike those of a bound host, which name the bindings of that host', async () => {
    const { body } = await bench.pay(1_000);
    expect(body.details).toEqual({
      tool: 'bank.pay',
      resource: 'account:main',
      host: new URL(bench.url).host,
      bindings: ['pay'],
    });
  });

  it.each(['/secret/keys:/public/x', '/:/public/x', '/a%3A/public/x', '/public:/public/x'])(
    'is judged by the whole path: the path %s does not match /public/',
    async (target) => {
      const before = upstream.seen.length;
      expect(await get(target)).toContain('policy.no_match');
      expect(upstream.seen.length).toBe(before);
    },
  );
});
