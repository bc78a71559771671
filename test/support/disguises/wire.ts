import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';

/** How a request reaches the proxy: in absolute form, inside CONNECT, or as TLS inside CONNECT. */
export type Transport = 'plain' | 'connect' | 'tls';

export interface Way {
  readonly proxyPort: number;
  readonly transport: Transport;
  /** `host:port` in the CONNECT request. */
  readonly authority: string;
  /** Authorities that the agent trusts. */
  readonly ca: string;
  readonly servername?: string | undefined;
}

/** One response of the proxy. */
export interface Answer {
  readonly status: number;
  readonly headers: string;
  readonly body: string;
}

/** Everything received on one connection until it closed. */
export interface Conversation {
  readonly answers: readonly Answer[];
  /** The bytes that are not a complete response. */
  readonly rest: string;
}

const patienceMs = 15_000;

/**
 * Sends bytes unchanged, and reads until the connection closes. After the first response, sends a
 * request that ends the connection. By then, the proxy has processed any request that was hidden
 * behind the first one.
 */
export async function converse(way: Way, bytes: Buffer): Promise<Conversation> {
  const socket = await opened(way);
  if (!('write' in socket)) return socket;
  const { promise, resolve, reject } = Promise.withResolvers<Conversation>();
  const timer = setTimeout(() => {
    socket.destroy();
    reject(new Error(`neither answered nor closed: ${text}`));
  }, patienceMs);
  let text = '';
  let isEnding = false;
  const isHead = bytes.toString('latin1').startsWith('HEAD ');
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1');
    if (isEnding || readAnswers(text, isHead).answers.length === 0) return;
    isEnding = true;
    socket.write(lastRequest(way));
  });
  socket.on('error', () => {});
  socket.once('close', () => {
    clearTimeout(timer);
    resolve(readAnswers(text, isHead));
  });
  socket.write(bytes);
  return promise;
}

/**
 * Returns a TRACE request. The proxy refuses TRACE on every connection and then closes the
 * connection.
 */
function lastRequest({ transport, authority }: Way): string {
  const target = transport === 'plain' ? `http://${authority}/` : '/';
  return `TRACE ${target} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`;
}

/** Opens a connection that accepts requests. If the CONNECT was refused, returns the response. */
async function opened(way: Way): Promise<Socket | Conversation> {
  const socket = connect(way.proxyPort, '127.0.0.1');
  socket.on('error', () => {});
  if (way.transport === 'plain') return socket;
  socket.write(`CONNECT ${way.authority} HTTP/1.1\r\nHost: ${way.authority}\r\n\r\n`);
  const [reply] = (await once(socket, 'data')) as [Buffer];
  if (!reply.toString().startsWith('HTTP/1.1 200')) {
    socket.destroy();
    return readAnswers(reply.toString('latin1'), false);
  }
  if (way.transport === 'connect') return socket;
  const secure = connectTls({
    socket,
    ca: way.ca,
    servername: way.servername ?? '',
    checkServerIdentity: () => undefined,
  });
  await once(secure, 'secureConnect');
  return secure;
}

/**
 * Reads the complete responses at the start of `text`. The first one may be the response to HEAD.
 * Interim responses are skipped.
 */
function readAnswers(text: string, isHead: boolean): Conversation {
  const answers: Answer[] = [];
  let rest = text;
  for (;;) {
    const read = readAnswer(rest, isHead && answers.length === 0);
    if (read === undefined) return { answers, rest };
    if (read.answer.status >= 200) answers.push(read.answer);
    rest = rest.slice(read.length);
  }
}

function readAnswer(text: string, isHead: boolean): { answer: Answer; length: number } | undefined {
  const end = text.indexOf('\r\n\r\n');
  const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(text)?.[1] ?? 0);
  if (end < 0 || status === 0) return undefined;
  const headers = text.slice(0, end + 2);
  const start = end + 4;
  const answer = (body: string, length: number) => ({ answer: { status, headers, body }, length });
  if (isHead || status < 200 || status === 204 || status === 304) return answer('', start);
  const length = /\r\ncontent-length: (\d+)\r\n/i.exec(headers)?.[1];
  if (length === undefined) return chunked(text, start, answer);
  const body = text.slice(start, start + Number(length));
  return body.length < Number(length) ? undefined : answer(body, start + body.length);
}

function chunked<T>(
  text: string,
  start: number,
  answer: (body: string, length: number) => T,
): T | undefined {
  let body = '';
  let at = start;
  for (;;) {
    const line = /^([0-9a-f]+)\r\n/i.exec(text.slice(at));
    if (line === null) return undefined;
    const size = Number.parseInt(line[1] ?? '', 16);
    at += line[0].length;
    if (text.length < at + size + 2) return undefined;
    if (size === 0) return answer(body, at + 2);
    body += text.slice(at, at + size);
    at += size + 2;
  }
}
