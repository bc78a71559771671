import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { bodyOf, raw, startProxy, until } from '../../support/sidecar/proxy.ts';
import { rawClient } from '../../support/sidecar/raw-client.ts';
import { close, type HostileStage, hostileStage, statuses } from './hostile-stage.ts';

let stage: HostileStage;
beforeEach(async () => {
  stage = await hostileStage();
});
afterEach(() => stage.cleanup.run());

describe('an odd but harmless request', () => {
  it('is forwarded without its chunk extensions and trailers', async () => {
    const bytes = `POST ${stage.target()} HTTP/1.1\r\n${stage.host()}${close}Transfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n5;a=b\r\nhello\r\n0\r\nX-T: 1\r\n\r\n`;
    expect(statuses(await raw(stage.proxy.port, bytes))).toEqual([200]);
    expect(stage.seen).toEqual(['POST / hello']);
  });

  it('in HTTP/1.0 without Host is accepted', async () => {
    expect(
      statuses(await raw(stage.proxy.port, `GET ${stage.target('/old')} HTTP/1.0\r\n\r\n`)),
    ).toEqual([200]);
    expect(stage.seen).toEqual(['GET /old ']);
  });

  it.each([
    ['no path', '', '/'],
    ['a query without path', '?a=1', '/?a=1'],
    ['dot segments', '/a/../b', '/a/../b'],
    ['encoded bytes', '/%2e%2E/%00', '/%2e%2E/%00'],
  ])('reaches the upstream with an unchanged target: %s', async (_what, path, arrives) => {
    await raw(
      stage.proxy.port,
      `GET ${stage.target(path)} HTTP/1.1\r\n${stage.host()}${close}\r\n`,
    );
    expect(stage.seen).toEqual([`GET ${arrives} `]);
  });

  it('that is a GET with a body is forwarded with its body', async () => {
    await raw(
      stage.proxy.port,
      `GET ${stage.target()} HTTP/1.1\r\n${stage.host()}${close}Content-Length: 2\r\n\r\nhi`,
    );
    expect(stage.seen).toEqual(['GET / hi']);
  });

  it('with an unknown expectation is refused with 417', async () => {
    const answer = await raw(
      stage.proxy.port,
      `GET ${stage.target()} HTTP/1.1\r\n${stage.host()}${close}Expect: magic\r\n\r\n`,
    );
    expect(statuses(answer)).toEqual([417]);
  });
});

describe('pipelined requests', () => {
  it('are handled one after the other and answered in order', async () => {
    const order: string[] = [];
    const own = await startProxy(stage.cleanup, {
      handle: async ({ target: path, res }) => {
        order.push(`begin ${path}`);
        await new Promise((resolve) => setTimeout(resolve, path === '/0' ? 30 : 1));
        order.push(`end ${path}`);
        res.end(path);
      },
    });
    const requests = [0, 1, 2].map(
      (n) => `GET ${stage.target(`/${n}`)} HTTP/1.1\r\n${stage.host()}${n === 2 ? close : ''}\r\n`,
    );
    const answer = await raw(own.port, requests.join(''));
    expect(answer.match(/\/\d$|\/\d(?=HTTP)/gm)).toEqual(['/0', '/1', '/2']);
    expect(order).toEqual(['begin /0', 'end /0', 'begin /1', 'end /1', 'begin /2', 'end /2']);
  });

  it('close the connection if there are more of them than the queue can hold', async () => {
    const own = await startProxy(stage.cleanup, { handle: () => new Promise(() => {}) });
    const request = `GET ${stage.target()} HTTP/1.1\r\n${stage.host()}\r\n`;
    expect(await raw(own.port, request.repeat(200))).toBe('');
  });

  it('are not handled after a refused request', async () => {
    const bytes = `GET / HTTP/1.1\r\n${stage.host()}\r\nGET ${stage.target('/second')} HTTP/1.1\r\n${stage.host()}\r\n`;
    expect(statuses(await raw(stage.proxy.port, bytes))).toEqual([400]);
    expect(stage.seen).toEqual([]);
  });

  it.each(['', 'Content-Length: 0\r\n'])(
    'are not handled after a request without a body that offers h2c, because its response closes the connection: %j',
    async (length) => {
      const handled: string[] = [];
      const own = await startProxy(stage.cleanup, {
        onUpgrade: () => Promise.reject(new Error('It is no upgrade.')),
        handle: async ({ target: path, res }) => {
          handled.push(path);
          res.end(path);
        },
      });
      const offer = `Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n${length}`;
      const request = (path: string, more: string) =>
        `GET ${stage.target(path)} HTTP/1.1\r\n${stage.host()}${more}\r\n`;
      // `raw` resolves when the connection closes, so this test does not wait for a second
      // response.
      const answer = await raw(own.port, request('/first', offer) + request('/second', ''));
      expect(statuses(answer)).toEqual([200]);
      expect(answer).toMatch(/^Connection: close\r$/im);
      expect(handled).toEqual(['/first']);
    },
  );

  it('are handled after a request that has a body and offers h2c, because the offer is ignored', async () => {
    const offer =
      'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n';
    const got: string[] = [];
    const own = await startProxy(stage.cleanup, {
      onUpgrade: () => Promise.reject(new Error('It is no upgrade.')),
      handle: async ({ req, res }) => {
        got.push(String(await bodyOf(req)));
        res.end('ok');
      },
    });
    const post = (body: string, more = '') =>
      `POST ${stage.target('/h2c')} HTTP/1.1\r\n${stage.host()}${more}Content-Length: ${body.length}\r\n\r\n${body}`;
    const client = await rawClient(own.port, post('first', offer));
    await until(() => client.text().endsWith('ok'));
    client.socket.write(post('second', offer));
    await until(() => client.text().split('HTTP/1.1 200').length === 3);
    client.socket.destroy();
    expect(got).toEqual(['first', 'second']);
  });

  it('close the connection if a CONNECT follows an unanswered request', async () => {
    const own = await startProxy(stage.cleanup, { handle: () => new Promise(() => {}) });
    const bytes = `GET ${stage.target()} HTTP/1.1\r\n${stage.host()}\r\nCONNECT 127.0.0.1:${stage.port} HTTP/1.1\r\n${stage.host()}\r\n`;
    expect(await raw(own.port, bytes)).toBe('');
  });
});
