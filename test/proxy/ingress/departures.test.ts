import { connect } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { raw, startProxy, until } from '../../support/sidecar/proxy.ts';
import { codes, type HostileStage, hostileStage, statuses } from './hostile-stage.ts';

let stage: HostileStage;
beforeEach(async () => {
  stage = await hostileStage();
});
afterEach(() => stage.cleanup.run());

describe('exceptions and departures', () => {
  it.each([
    ['throws', () => Promise.reject(new Error('secret detail'))],
    [
      'throws at once',
      () => {
        throw new Error('secret detail');
      },
    ],
    ['answers nothing', async () => {}],
  ])('a handler that %s is answered 500 without its detail', async (_what, handle) => {
    const own = await startProxy(stage.cleanup, { handle: handle as () => Promise<void> });
    const answer = await raw(own.port, `GET ${stage.target()} HTTP/1.1\r\n${stage.host()}\r\n`);
    expect(statuses(answer)).toEqual([500]);
    expect(codes(answer)).toEqual(['internal.unexpected']);
    expect(answer).not.toContain('secret');
  });

  it('a handler that fails within its answer breaks the connection off', async () => {
    const own = await startProxy(stage.cleanup, {
      handle: async ({ res }) => {
        res.writeHead(200, { 'content-length': '100' }).write('begin');
        await new Promise((resolve) => setTimeout(resolve, 10));
        throw new Error('late');
      },
    });
    const answer = await raw(own.port, `GET ${stage.target()} HTTP/1.1\r\n${stage.host()}\r\n`);
    expect(answer.endsWith('begin')).toBe(true);
  });

  it.each(['destroy', 'end'] as const)(
    'an agent that goes away (%s) aborts its exchange',
    async (way) => {
      let aborted = false;
      let begun = false;
      const own = await startProxy(stage.cleanup, {
        handle: async ({ abort: { signal }, res }) => {
          begun = true;
          await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
          aborted = true;
          res.end();
        },
      });
      const socket = connect(own.port, '127.0.0.1');
      socket.resume().on('error', () => {});
      socket.write(`GET ${stage.target()} HTTP/1.1\r\n${stage.host()}\r\n`);
      await until(() => begun);
      socket[way]();
      await until(() => aborted, 'the abort');
    },
  );

  it('a signal requested after the end is already aborted', async () => {
    let state: boolean | undefined;
    const own = await startProxy(stage.cleanup, {
      handle: async (exchange) => {
        await new Promise((resolve) => exchange.res.once('close', resolve));
        await Promise.resolve();
        state = exchange.abort.signal.aborted;
      },
    });
    const socket = connect(own.port, '127.0.0.1');
    socket.on('error', () => {});
    socket.write(`GET ${stage.target()} HTTP/1.1\r\n${stage.host()}\r\n`, () =>
      setTimeout(() => socket.destroy(), 20),
    );
    await until(() => state !== undefined);
    expect(state).toBe(true);
  });

  it('closing waits for calls in flight and accepts no more', async () => {
    let release = () => {};
    const own = await startProxy(stage.cleanup, {
      handle: async ({ res }) => {
        await new Promise<void>((resolve) => {
          release = resolve;
        });
        res.end('finished');
      },
    });
    const idle = connect(own.port, '127.0.0.1');
    idle.on('error', () => {});
    const idleClosed = new Promise((resolve) => idle.resume().once('close', resolve));
    const answer = raw(own.port, `GET ${stage.target()} HTTP/1.1\r\n${stage.host()}\r\n`);
    await new Promise((resolve) => setTimeout(resolve, 30));
    const closed = own.ingress.close(5_000);
    await idleClosed;
    expect(await raw(own.port, `GET ${stage.target()} HTTP/1.1\r\n${stage.host()}\r\n`)).toBe('');
    release();
    expect(await answer).toContain('finished');
    await closed;
  });

  it('closing ends calls that exceed the grace period', async () => {
    const own = await startProxy(stage.cleanup, { handle: () => new Promise(() => {}) });
    const answer = raw(own.port, `GET ${stage.target()} HTTP/1.1\r\n${stage.host()}\r\n`);
    await new Promise((resolve) => setTimeout(resolve, 30));
    await own.ingress.close(50);
    expect(await answer).toBe('');
  });
});
