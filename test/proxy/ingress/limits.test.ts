import { connect } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { bodyOf, raw, startProxy, until } from '../../support/sidecar/proxy.ts';
import { close, codes, exchange, type HostileStage, hostileStage } from './hostile-stage.ts';

let stage: HostileStage;
beforeEach(async () => {
  stage = await hostileStage();
});
afterEach(() => stage.cleanup.run());

describe('the limits of the ingress', () => {
  it('answer 408 to a request head that does not arrive in time', async () => {
    const own = await startProxy(stage.cleanup, { limits: { headMs: 100 } });
    const [started, silent] = await Promise.all([raw(own.port, 'GET http://a'), raw(own.port, '')]);
    expect(codes(started)).toEqual(['proxy.request_timeout']);
    expect(codes(silent)).toEqual(['proxy.request_timeout']);
  });

  it('close a connection whose TLS handshake does not arrive in time', async () => {
    const own = await startProxy(stage.cleanup, { limits: { handshakeMs: 50 } });
    const socket = await stage.connected('a.example:443', own.port);
    expect(await exchange(socket, '\x16')).toBe('');
    const silent = await stage.connected('a.example:443', own.port);
    expect(await exchange(silent, '')).toBe('');
  });

  it('answer 408 to a request body that stalls, and end the upstream request', async () => {
    const own = await startProxy(stage.cleanup, { limits: { bodyIdleMs: 100 } });
    for (const length of [10, 1_000_000]) {
      const answer = await raw(
        own.port,
        `POST ${stage.target()} HTTP/1.1\r\n${stage.host()}Content-Length: ${length}\r\n\r\nhalf`,
      );
      expect(codes(answer)).toEqual(['proxy.request_timeout']);
    }
    await until(() => own.outcomes.length === 2);
    expect(own.outcomes.map(({ failure }) => failure)).toEqual(['client_gone', 'client_gone']);
    expect(stage.seen).toEqual([]);
  });

  it('do not count a slow response as a stalled body', async () => {
    const own = await startProxy(stage.cleanup, {
      limits: { bodyIdleMs: 50 },
      handle: async ({ req, res }) => {
        await bodyOf(req);
        await new Promise((resolve) => setTimeout(resolve, 200));
        res.end('late');
      },
    });
    const answer = await raw(
      own.port,
      `POST ${stage.target()} HTTP/1.1\r\n${stage.host()}${close}Content-Length: 2\r\n\r\nhi`,
    );
    expect(answer).toContain('late');
  });

  it('refuse connections above the maximum until others close', async () => {
    const own = await startProxy(stage.cleanup, { limits: { connectionsMax: 2 } });
    const first = connect(own.port, '127.0.0.1');
    const second = await stage.connected('a.example:443', own.port);
    const ask = () =>
      raw(own.port, `GET ${stage.target()} HTTP/1.1\r\n${stage.host()}${close}\r\n`);
    expect(codes(await ask())).toEqual(['proxy.too_many_connections']);
    first.destroy();
    second.destroy();
    let answer = '';
    for (let attempt = 0; !answer.includes('upstream') && attempt < 50; attempt++) {
      answer = await ask();
    }
    expect(answer).toContain('upstream');
  });
});
