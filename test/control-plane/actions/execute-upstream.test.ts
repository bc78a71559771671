import { createServer } from 'node:net';
import { afterAll, describe, expect, it } from 'vitest';
import { createGuard } from '../../../shared/upstream/address-guard.ts';
import { certificateFor } from '../../proxy/upstream/upstream-tls-stage.ts';
import { Cleanup, listening } from '../../support/sidecar/proxy.ts';
import { startUpstream } from '../../support/sidecar/upstream.ts';
import { executeStage, secret } from './execute-stage.ts';

const dayMs = 86_400_000;
const cleanup = new Cleanup();

/** A fake DNS: the answers for a name are returned in order, and the last one is then repeated. */
const names: Record<string, string[][]> = {};
const asked: string[] = [];
const guard = createGuard({
  allowPrivate: ['127.0.0.0/8', '::1/128'],
  resolve: (name, _options, callback) => {
    asked.push(name);
    const answers = names[name] ?? [];
    const found = answers.length > 1 ? answers.shift() : answers[0];
    const addresses = (found ?? []).map((address) => ({ address, family: 4 }));
    callback(null, addresses);
  },
});
names.localhost = [['127.0.0.1']];

const identities = {
  untrusted: certificateFor('localhost'),
  expired: certificateFor('localhost', -2 * dayMs, -dayMs),
  wrong_host: certificateFor('other.example'),
};

const stage = await executeStage({
  env: {
    SALLYPORT_UPSTREAM_CONNECT_MS: '300',
    SALLYPORT_UPSTREAM_TIMEOUT_MS: '700',
    SALLYPORT_MAX_ANSWER_BYTES: '1000',
  },
  upstream: { guard, ca: [identities.expired.ca, identities.wrong_host.ca] },
});
const { upstream, run, bind, eventById, send } = stage;
afterAll(async () => {
  await stage.close();
  await cleanup.run();
});

/**
 * Binds `pay` to another URL. The credential is not sent there, because it is bound to the stage's upstream.
 */
const to = (url: string) => bind('pay', { upstream: { url, method: 'POST' } });
const home = () => to(`https://${stage.host}/invoices/{invoice}/pay`);

async function expectFailed(code: string, executed: boolean | 'unknown') {
  const answered = await run();
  expect(answered).toMatchObject({ decision: 'allow', executed, failure: { reason_code: code } });
  expect(answered.failure?.next_steps.length).toBeGreaterThan(0);
  const event = await eventById(String(answered.result_event_id));
  expect(event).toMatchObject({ reason_code: code, data: { executed } });
  return answered;
}

describe('a forbidden upstream address', () => {
  it.each([
    'http://169.254.169.254/latest',
    'http://[fd00:ec2::254]/latest',
    'http://10.0.0.7/x',
    'http://[::ffff:10.0.0.7]/x',
    'http://0xa000007/x',
    'http://192.168.1.1:8080/x',
  ])('is refused before a request is sent: %s', async (url) => {
    await to(url);
    await expectFailed('proxy.address_refused', false);
  });

  it('is refused if a host name resolves to it, even if the name also resolves to permitted addresses', async () => {
    names['mixed.example'] = [['127.0.0.1', '169.254.169.254']];
    await to('http://mixed.example/x');
    await expectFailed('proxy.address_refused', false);
  });

  it('is refused after DNS rebinding, because each call connects to the address that was checked', async () => {
    const plain = await startUpstream();
    cleanup.add(() => plain.close());
    names['rebind.example'] = [['127.0.0.1'], ['10.0.0.7']];
    await to(`http://rebind.example:${plain.port}/x`);
    asked.length = 0;
    expect(await run()).toMatchObject({ executed: true });
    expect([asked, plain.seen.length]).toEqual([['rebind.example'], 1]);
    await expectFailed('proxy.address_refused', false);
    expect(asked).toEqual(['rebind.example', 'rebind.example']);
  });

  it('includes the control plane’s own port on this machine', async () => {
    const { port } = new URL(stage.gateway.api.origin);
    stage.services.upstream.guard.ownPorts.add(Number(port));
    await to(`http://127.0.0.1:${port}/readyz`);
    await expectFailed('proxy.address_refused', false);
  });
});

describe('TLS to an upstream', () => {
  it.each<[string, keyof typeof identities]>([
    ['from an unknown authority', 'untrusted'],
    ['expired', 'expired'],
    ['for another host', 'wrong_host'],
  ])('fails before a byte is sent if the certificate is %s', async (_what, name) => {
    const other = await startUpstream({ tls: identities[name] });
    cleanup.add(() => other.close());
    await to(`https://localhost:${other.port}/x`);
    await expectFailed(`upstream.certificate_${name}`, false);
    expect(other.seen).toEqual([]);
  });

  it('fails if the upstream does not support TLS', async () => {
    const plain = await startUpstream();
    cleanup.add(() => plain.close());
    await to(`https://localhost:${plain.port}/x`);
    await expectFailed('upstream.tls_invalid', false);
  });
});

describe('the result of a failed upstream call', () => {
  it('reports executed: false if the connection is refused', async () => {
    const gone = await startUpstream();
    await gone.close();
    await to(`http://127.0.0.1:${gone.port}/x`);
    await expectFailed('upstream.unreachable', false);
  });

  it('reports executed: unknown if the upstream accepts the connection and does not respond', async () => {
    await home();
    upstream.behave(() => {});
    await expectFailed('upstream.timeout', 'unknown');
  });

  it('reports executed: unknown if the upstream closes the connection before responding', async () => {
    await home();
    upstream.behave((req) => req.socket.destroy());
    await expectFailed('upstream.reset', 'unknown');
  });

  it('reports executed: true and the status if the connection breaks in the middle of the response', async () => {
    await home();
    upstream.behave((req, res) => {
      res.writeHead(201, { 'content-length': '100' }).write('part');
      setImmediate(() => req.socket.destroy());
    });
    const answered = await expectFailed('upstream.reset', true);
    expect(answered.result).toMatchObject({ status: 201, body_format: 'none', truncated: true });
  });

  it('reports a timeout if the response arrives too slowly', async () => {
    await home();
    upstream.behave((req, res) => {
      res.writeHead(200);
      const timer = setInterval(() => res.write('.'), 50);
      req.socket.on('close', () => clearInterval(timer));
    });
    await expectFailed('upstream.timeout', true);
  });

  it('reports executed: unknown if the response is not HTTP', async () => {
    const noise = createServer((socket) => {
      socket.on('error', () => {});
      socket.on('data', () => socket.end('no such protocol\r\n\r\n'));
    });
    const port = await listening(noise, cleanup);
    await to(`http://127.0.0.1:${port}/x`);
    await expectFailed('upstream.reset', 'unknown');
  });
});

describe('the size limit of a response', () => {
  it('truncates a longer response at a character boundary and marks the response as truncated', async () => {
    await home();
    upstream.behave((_req, res) => res.end(`a${'é'.repeat(5_000)}`));
    const { result, executed } = await run();
    expect(executed).toBe(true);
    expect(result).toMatchObject({ truncated: true, body_format: 'text', body_bytes: 1000 });
    expect(result?.body).toBe(`a${'é'.repeat(499)}`);
  });

  it('does not leave a part of a reflected secret in a truncated response', async () => {
    await home();
    upstream.behave((_req, res) => res.end(`${'x'.repeat(990)}${secret}`));
    const answered = await send();
    expect(answered.text).not.toContain(secret.slice(0, 8));
    expect(answered.body).toMatchObject({ executed: true, result: { truncated: true } });
  });

  it('does not truncate a response whose size equals the limit', async () => {
    await home();
    upstream.behave((_req, res) => res.end('x'.repeat(1000)));
    expect((await run()).result).toMatchObject({ truncated: false, body_bytes: 1000 });
  });
});

describe('an execute request with a repeated idempotency key', () => {
  it('is sent to the upstream again if the first attempt certainly did not reach the upstream', async () => {
    const gone = await startUpstream();
    await gone.close();
    await to(`http://127.0.0.1:${gone.port}/x`);
    const keyed = { idempotency_key: 'outage' };
    expect(await run(keyed)).toMatchObject({
      executed: false,
      failure: { reason_code: 'upstream.unreachable' },
    });
    await home();
    upstream.behave((_req, res) => res.end('done'));
    expect(await run(keyed)).toMatchObject({ executed: true });
  });

  it('is not sent to the upstream again if the upstream may have performed the first attempt', async () => {
    await home();
    upstream.behave((req) => req.socket.destroy());
    const before = upstream.seen.length;
    const keyed = { idempotency_key: 'doubt' };
    const first = await run(keyed);
    expect(first).toMatchObject({
      executed: 'unknown',
      failure: { reason_code: 'upstream.reset' },
    });
    expect(await run(keyed)).toEqual(first);
    expect(upstream.seen.length).toBe(before + 1);
  });

  it('is independent of a preflight request with the same key', async () => {
    await home();
    upstream.behave((_req, res) => res.end('done'));
    const asked = stage.action({ idempotency_key: 'both' });
    const preflight = await stage.gateway.post('/v1/actions/preflight', asked);
    const alias = await stage.gateway.post('/v1/actions/decision', asked);
    expect(preflight).toMatchObject({ status: 200, body: { decision: 'allow' } });
    expect(preflight.body).not.toHaveProperty('executed');
    expect(alias.body).toEqual(preflight.body);
    expect(await run({ idempotency_key: 'both' })).toMatchObject({ executed: true });
  });
});
