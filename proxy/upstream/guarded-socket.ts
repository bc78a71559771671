import type { Socket } from 'node:net';
import { Duplex, pipeline, Transform } from 'node:stream';
import type { ResponseFilter } from './forwarding.ts';

/**
 * The agent's connection for a tunnel: what the upstream writes to it passes the filter, and
 * `onCut` is told when that breaks it off. It stands in for the socket where http-proxy wants one.
 */
export function guardedSocket(socket: Socket, filter: ResponseFilter, onCut: () => void): Socket {
  const judged = (bytes: Buffer, last: boolean): Buffer | undefined => {
    const passed = filter.chunk?.(bytes, last) ?? bytes;
    return passed === 'cut' ? undefined : passed;
  };
  const outward = new Transform({
    transform(bytes: Buffer, _encoding, done) {
      const passed = judged(bytes, false);
      if (passed === undefined) cut();
      else done(null, passed);
    },
    flush(done) {
      const passed = judged(Buffer.alloc(0), true);
      if (passed === undefined) cut();
      else done(null, passed);
    },
  });
  const cut = () => {
    onCut();
    socket.destroy();
  };
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
