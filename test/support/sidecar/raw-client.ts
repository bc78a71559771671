import { connect, type Socket } from 'node:net';

/** A connection on which a test sends raw bytes. */
export interface RawClient {
  readonly socket: Socket;
  /** Returns everything received so far. */
  text(): string;
  /** Resolves when the other side has closed, with everything received. */
  readonly closed: Promise<string>;
}

export async function rawClient(port: number, bytes = ''): Promise<RawClient> {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  let text = '';
  socket.setEncoding('latin1');
  socket.on('data', (chunk) => {
    text += chunk;
  });
  socket.on('error', () => {});
  const { promise: closed, resolve } = Promise.withResolvers<string>();
  socket.once('end', () => resolve(text));
  socket.once('close', () => resolve(text));
  const connected = new Promise((done) => socket.once('connect', done));
  await Promise.race([connected, closed]);
  if (bytes !== '') socket.write(bytes, 'latin1');
  return { socket, text: () => text, closed };
}

/** Returns the head of a request in absolute form, with the matching Host header. */
export function headOf(method: string, url: string, headers = ''): string {
  return `${method} ${url} HTTP/1.1\r\nHost: ${new URL(url).host}\r\n${headers}\r\n`;
}

export function reasonOf(answer: string): string | undefined {
  return /"reason_code":"([^"]+)"/.exec(answer)?.[1];
}
