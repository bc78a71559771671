import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createVault } from '../../../control-plane/platform/vault/vault.ts';
import { importPrivateKey } from '../../../shared/crypto/signing-key.ts';
import { until } from '../../support/programs/processes.ts';
import { Cleanup, raw } from '../../support/sidecar/proxy.ts';
import { type FaultBench, startFaultBench } from '../../support/system/fault-bench.ts';
import { heapOf } from '../recognition/heap-of.ts';
import { droppedWays, reflectingUpstream, reflections } from './reflecting-upstream.ts';
import {
  everyAnswer,
  filesBelow,
  type Places,
  placesWith,
  processSurface,
  seedSecret,
  wholeDatabase,
  wholeRedis,
} from './seeded-secrets.ts';

const secrets = {
  bearer: seedSecret('bearer'),
  header: seedSecret('header'),
  basic: seedSecret('basic'),
  query: seedSecret('query'),
};
const all = Object.values(secrets);
const base64 = (text: string) => Buffer.from(text).toString('base64');

/**
 * Control plane and sidecar as processes; none of their output may contain a credential's secret.
 */
describe('the secrets of credentials', () => {
  const cleanup = new Cleanup();
  let bench: FaultBench;
  let upstream: Awaited<ReturnType<typeof reflectingUpstream>>;
  let other: typeof upstream;
  const heard: string[] = [];

  beforeAll(async () => {
    bench = await startFaultBench({
      SALLYPORT_LOG_LEVEL: 'debug',
      NODE_OPTIONS: '--inspect=127.0.0.1:0',
    });
    upstream = await reflectingUpstream(cleanup, secrets.bearer);
    other = await reflectingUpstream(cleanup, secrets.bearer);
    await publish();
    // Waits for the credential that was stored last, because after each store the sidecar fetches all
    // credentials.
    await until('the credentials are used', async () => {
      await call('/echo/query/plain');
      return upstream.heads.at(-1)?.includes(encodeURIComponent(secrets.query)) ?? false;
    });
  }, 60_000);
  afterAll(async () => {
    await cleanup.run();
    await bench?.close();
  });

  async function publish() {
    const bind = (name: string, port: number, path: string, tool: string) =>
      put(`/v1/runtime/bindings/${name}`, {
        protocol: 'http',
        host: `127.0.0.1:${port}`,
        method: 'GET',
        body: 'none',
        path,
        tool,
        resource: 'vault:main',
        headers: ['authorization', 'x-key', 'cookie', 'range'],
      });
    for (const place of Object.keys(secrets)) {
      await bind(place, upstream.port, `/echo/${place}/{way}`, `vault.${place}`);
      await bind(`${place}-elsewhere`, other.port, `/echo/${place}/{way}`, `vault.${place}`);
    }
    await bind('go', upstream.port, '/go/{status}/{location}', 'vault.bearer');
    await bind('free', upstream.port, '/free', 'free.read');
    const rule = { name: 'all', decision: 'allow', reason: 'test.all' };
    const when = {
      any: ['^vault\\.', '^free\\.'].map((value) => ({
        path: 'tool.name',
        operator: 'matches',
        value,
      })),
    };
    await post('/v1/policies', {
      name: 'all',
      publish: true,
      rules_json: { id: 'all', version: 1, rules: [{ ...rule, when }] },
    });
    const inject = {
      bearer: { in: 'bearer' },
      header: { in: 'header', name: 'X-Key' },
      basic: { in: 'basic', format: 'amy:{secret}' },
      query: { in: 'query', name: 'key' },
    } as const;
    for (const [place, secret] of Object.entries(secrets)) {
      await post('/v1/credentials', {
        name: place,
        secret,
        inject: inject[place as keyof typeof inject],
        bind: { tools: [`vault.${place}`], hosts: [`127.0.0.1:${upstream.port}`] },
      });
    }
  }

  /** Returns values that only the control plane may know: the private halves of its signing keys. */
  async function privateKeys(): Promise<readonly string[]> {
    const vault = createVault(bench.separate.masterKey);
    const client = new pg.Client({ connectionString: bench.database.url });
    await client.connect();
    const { rows } = await client.query<{ tenant: string; kid: string; sealed: string }>(
      'SELECT tenant_id AS tenant, kid, sealed FROM signing_key',
    );
    await client.end();
    expect(rows.length).toBeGreaterThan(2);
    return rows.flatMap(({ tenant: tenantId, kid: id, sealed }) => {
      const place = { tenantId, purpose: 'signing_key', id, version: 1 };
      const pkcs8 = vault.open(sealed, place);
      const { d = '' } = importPrivateKey(pkcs8).privateKey.export({ format: 'jwk' });
      const bytes = Buffer.from(d, 'base64url').toString('hex');
      return [d, bytes, pkcs8.toString('base64'), pkcs8.toString('hex')];
    });
  }

  /** Stores a webhook URL; returns the webhook's secret, which only this response contains. */
  async function webhookSecret(): Promise<string> {
    const url = `https://127.0.0.1:${upstream.port}/hook`;
    const { body } = await bench.separate.api('PUT', '/v1/integrations/webhook', { url });
    return String(body.secret);
  }

  /**
   * Makes a call with each credential through the control plane's own operation,
   * `/v1/actions/execute`.
   */
  async function executed(): Promise<void> {
    for (const place of Object.keys(secrets)) {
      await post('/v1/actions/execute', {
        tool: `vault.${place}`,
        resource: 'vault:main',
        args: { way: 'plain' },
        agent_id: bench.separate.agentId,
        user_id: 'user_1',
        idempotency_key: `once-${place}`,
      });
    }
  }

  async function send(method: string, path: string, body: unknown) {
    const answer = await bench.separate.api(method, path, body);
    heard.push(JSON.stringify(answer));
    if (answer.status >= 300) throw new Error(`${path}: ${JSON.stringify(answer.body)}`);
  }
  const put = (path: string, body: unknown) => send('PUT', path, body);
  const post = (path: string, body: unknown) => send('POST', path, body);

  /** Makes a call as the agent; returns all bytes of the response. */
  async function call(path: string, headers = '', port = upstream.port): Promise<string> {
    const proxyPort = Number(new URL(bench.separate.proxyUrl).port);
    const target = `127.0.0.1:${port}`;
    const answer = await raw(
      proxyPort,
      `GET http://${target}${path} HTTP/1.1\r\nHost: ${target}\r\nConnection: close\r\n${headers}\r\n`,
    );
    heard.push(answer);
    return answer;
  }
  const headsAfter = async (work: () => Promise<unknown>, from = upstream) => {
    const before = from.heads.length;
    await work();
    return from.heads.slice(before);
  };

  it.each([
    ['bearer', /^authorization: (.*)$/gim, `Bearer ${secrets.bearer}`],
    ['header', /^x-key: (.*)$/gim, secrets.header],
    ['basic', /^authorization: (.*)$/gim, `Basic ${base64(`amy:${secrets.basic}`)}`],
    ['query', /[?&]key=([^& ]*)/gi, encodeURIComponent(secrets.query)],
  ])('are sent once, instead of the agent’s own values: %s', async (place, slot, expected) => {
    const own = 'AuthoriZation: Bearer mine\r\nX-KEY: mine\r\n';
    const [head = ''] = await headsAfter(() => call(`/echo/${place}/plain?Key=mine`, own));
    expect([...head.matchAll(slot)].map(([, value]) => value?.trimEnd())).toEqual([expected]);
  });

  it.each([
    ['twice', 'Authorization: Bearer a\r\nAuthorization: Bearer b\r\n'],
    ['to the proxy', 'Proxy-Authorization: Bearer mine\r\n'],
    ['in parts', 'Range: bytes=0-10\r\n'],
  ])('cannot be replaced by the agent’s headers: %s', async (_what, headers) => {
    const heads = await headsAfter(() => call('/echo/bearer/plain', headers));
    for (const head of heads) {
      expect(head).not.toMatch(/proxy-authorization|range|Bearer [ab]\b/i);
      expect(head.match(/^authorization:/gim)).toHaveLength(1);
    }
  });

  it.each(Object.keys(reflections))('are removed from responses: %s', async (way) => {
    const answer = await call(`/echo/bearer/${way}`);
    expect(answer).not.toMatch(/^HTTP\/1\.1 200[\s\S]*\r\n0\r\n\r\n$/);
    if (way !== 'events') {
      expect(answer).toMatch(/^HTTP\/1\.1 502 /);
      expect(answer).toContain('"reason_code":"credential.reflected"');
      expect(answer).toContain('The call was performed; the response was withheld');
    }
    expect(placesWith(new Map([[way, Buffer.from(answer, 'latin1')]]), all)).toEqual([]);
  });

  it('cause an event with credential.reflected for each withheld response', async () => {
    await bench.untilSealed('the outcomes', (events) => {
      const cut = events.filter(
        ({ type, reason_code }) =>
          type === 'execution.result' && reason_code === 'credential.reflected',
      );
      return cut.length === Object.keys(reflections).length;
    });
  });

  it.each(Object.keys(droppedWays))(
    'are absent from a response if the upstream reflects them only in a part that is not forwarded: %s',
    async (way) => {
      const answer = await call(`/echo/bearer/${way}`);
      expect(answer).toMatch(/^HTTP\/1\.1 200 OK\r\n[\s\S]*ok/);
      expect(placesWith(new Map([[way, Buffer.from(answer, 'latin1')]]), all)).toEqual([]);
    },
  );

  it.each(['301', '302', '303', '307', '308'])(
    'are not sent to the target of a redirect: %s',
    async (status) => {
      const targets = {
        path: `http://127.0.0.1:${upstream.port}/free`,
        port: `http://127.0.0.1:${other.port}/echo/bearer/plain`,
        host: `http://localhost:${upstream.port}/echo/bearer/plain`,
      };
      for (const [what, target] of Object.entries(targets)) {
        const answer = await call(`/go/${status}/${Buffer.from(target).toString('base64url')}`);
        expect(answer, what).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
        expect(answer).toContain(`Location: ${target}`);
      }
      // The agent follows the redirect itself. The new call is decided again, and is sent without
      // the credential if the credential is not bound to its host.
      const [free = ''] = await headsAfter(() => call('/free'));
      const [elsewhere = ''] = await headsAfter(
        () => call('/echo/bearer/plain', '', other.port),
        other,
      );
      expect(free).toMatch(/^GET \/free /);
      expect(elsewhere).toMatch(/^GET \/echo\/bearer\/plain /);
      for (const head of [free, elsewhere]) {
        expect(placesWith(new Map([['head', Buffer.from(head, 'latin1')]]), all)).toEqual([]);
      }
    },
  );

  it('appear in no file, log, metric, table, Redis key, process listing or response', async () => {
    bench.upstream.behave((req) => req.socket.resetAndDestroy());
    await bench.pay(1);
    await executed();
    const inward = [await webhookSecret(), ...(await privateKeys())];
    expect(inward[0]).toMatch(/^whsec_/);
    const { separate } = bench;
    const places: Places = new Map();
    filesBelow(separate.dataDir, places);
    processSurface('sidecar', separate.sidecar, places);
    processSurface('control plane', separate.controlPlane, places);
    await wholeDatabase(bench.database.url, places);
    await wholeRedis(bench.redis.url, places);
    await everyAnswer(separate, places);
    places.set('what the agent and the owner heard', Buffer.from(heard.join('\n'), 'latin1'));
    expect(places.size).toBeGreaterThan(40);
    expect([...places.values()].every((bytes) => bytes !== undefined)).toBe(true);
    expect(placesWith(places, [...all, ...inward])).toEqual([]);
    // Checks the search itself, with a value that is not secret.
    expect(placesWith(places, ['vault.bearer']).length).toBeGreaterThan(3);
  });

  it('are deleted from a sidecar that is revoked', async () => {
    const heap = await heapOf(bench.separate.sidecar);
    // Checks first that the search can find a value.
    expect(placesWith(new Map([['heap', await heap.snapshot()]]), ['vault.bearer'])).toHaveLength(
      1,
    );
    const { sidecars } = (await bench.separate.api('GET', '/v1/sidecars')).body as {
      sidecars: { id: string }[];
    };
    for (const { id } of sidecars) await send('DELETE', `/v1/sidecars/${id}`, undefined);
    await until('calls are refused', async () =>
      (await call('/echo/bearer/plain')).includes('sidecar.revoked'),
    );
    expect(await headsAfter(() => call('/echo/bearer/plain'))).toEqual([]);
    await until('the heap holds none', async () => {
      const found = placesWith(new Map([['heap', await heap.snapshot()]]), all);
      return found.length === 0;
    });
    heap.close();
  });
});
