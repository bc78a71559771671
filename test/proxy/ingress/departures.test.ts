import { connect } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { raw, startProxy, until } from '../../support/sidecar/proxy.ts';
import { codes, type HostileStage, hostileStage, statuses } from './hostile-stage.ts';

let stage: HostileStage;
beforeEach(async () => {
  stage = await hostileStage();
});
afterEach(() => stage.cleanup.run());

describe('the ingress', () => {
  it.each([
    ['rejects', () => Promise.reject(new Error('secret detail'))],
    [
      'throws',
      () => {
        throw new Error('secret detail');
      },
    ],
    ['writes no response', async () => {}],
  ])('answers 500 without details if a handler %s', async (_what, handle) => {
    const own = await startProxy(stage.cleanup, { handle: handle as () => Promise<void> });
    const answer = await raw(own.port, `GET ${stage.target()} HTTP/1.1\r\n${stage.host()}\r\n`);
    expect(statuses(answer)).toEqual([500]);
    expect(codes(answer)).toEqual(['internal.unexpected']);
    expect(answer).not.toContain('secret');
  });

  it('closes the connection if a handler fails during its response', async () => {
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
    'aborts the exchange of an agent that disconnects (%s)',
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

  it('provides an aborted signal to a handler that requests one after the agent disconnected', async () => {
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

  it('waits for calls in flight when it closes, and accepts no new ones', async () => {
    let release: (() => void) | undefined;
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
    await until(() => release !== undefined);
    const closed = own.ingress.close(5_000);
    await idleClosed;
    expect(await raw(own.port, `GET ${stage.target()} HTTP/1.1\r\n${stage.host()}\r\n`)).toBe('');
    release?.();
    expect(await answer).toContain('finished');
    await closed;
  });

  it('ends calls that exceed the grace period when it closes', async () => {
    const own = await startProxy(stage.cleanup, { handle: () => new Promise(() => {}) });
    const answer = raw(own.port, `GET ${stage.target()} HTTP/1.1\r\n${stage.host()}\r\n`);
    await new Promise((resolve) => setTimeout(resolve, 30));
    await own.ingress.close(50);
    expect(await answer).toBe('');
  });
});
