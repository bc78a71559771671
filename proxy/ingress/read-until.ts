import type { Socket } from 'node:net';

interface ReadLimit {
  readonly timeoutMs: number;
  /** The error if `decide` returns no value in time. */
  readonly late: Error;
}

/** Reads until `decide` returns a value; resolves with this value and all bytes read. */
export function readUntil<Value>(
  socket: Socket,
  { timeoutMs, late }: ReadLimit,
  decide: (chunk: Buffer) => Value | undefined,
): Promise<{ readonly value: Value; readonly bytes: Buffer }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ value: Value; bytes: Buffer }>();
  const chunks: Buffer[] = [];
  const timer = setTimeout(() => finish(() => reject(late)), timeoutMs);
  const finish = (settle: () => void) => {
    clearTimeout(timer);
    socket.off('readable', onReadable).off('end', onEnd).off('close', onEnd).off('error', onError);
    settle();
  };
  const onEnd = () =>
    finish(() => reject(new Error('The connection closed before the handshake.')));
  const onError = (error: Error) => finish(() => reject(error));
  const onReadable = () => {
    const chunk: Buffer | null = socket.read();
    if (chunk === null) return;
    chunks.push(chunk);
    const value = decide(chunk);
    if (value !== undefined) finish(() => resolve({ value, bytes: Buffer.concat(chunks) }));
  };
  socket.on('readable', onReadable).once('end', onEnd).once('close', onEnd).once('error', onError);
  if (socket.destroyed || socket.readableEnded) onEnd();
  return promise;
}
