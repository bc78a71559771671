import type { Socket } from 'node:net';
import { Duplex, pipeline, Transform, type TransformCallback } from 'node:stream';
import type { ResponseFilter } from '../../shared/upstream/response-filter.ts';

/**
 * Wraps the agent's connection of a tunnel, in the form of the socket that http-proxy expects. The
 * filter reads the upstream's bytes; `onCut` is called if the filter cuts them, or with its
 * exception if it throws.
 */
export function guardedSocket(
  socket: Socket,
  filter: ResponseFilter,
  onCut: (failure?: unknown) => void,
): Socket {
  const cut = (failure?: unknown) => {
    onCut(failure);
    socket.destroy();
  };
  const judge = (bytes: Buffer, last: boolean, done: TransformCallback) => {
    let passed: Buffer | 'cut';
    try {
      passed = filter.chunk?.(bytes, last) ?? bytes;
    } catch (failure) {
      // Handled as a cut, because an exception from here would end the process.
      cut(failure);
      return;
    }
    if (passed === 'cut') cut();
    else done(null, passed);
  };
  const outward = new Transform({
    transform: (bytes: Buffer, _encoding, done) => judge(bytes, false, done),
    flush: (done) => judge(Buffer.alloc(0), true, done),
  });
  pipeline(outward, socket, () => {});
  const guarded = Duplex.from({ readable: socket, writable: outward });
  guarded.on('error', () => {});
  const { setKeepAlive, setNoDelay, setTimeout } = socket;
  return Object.assign(guarded, {
    setKeepAlive: setKeepAlive.bind(socket),
    setNoDelay: setNoDelay.bind(socket),
    setTimeout: setTimeout.bind(socket),
    destroySoon: () => guarded.end(),
  }) as unknown as Socket;
}
