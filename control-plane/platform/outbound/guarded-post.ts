import {
  type IncomingHttpHeaders,
  type IncomingMessage,
  type RequestOptions,
  request as requestHttp,
} from 'node:http';
import { request as requestHttps } from 'node:https';
import { type Guard, literalRefusal } from '../../../shared/upstream/address-guard.ts';

interface Post {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly guard: Guard;
  readonly timeoutMs: number;
}

/**
 * Maximum number of bytes that are read of a response body. Shorter responses are read to their
 * end, so that they are not interrupted.
 */
const answerBytesMax = 64 * 1024;

interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
}

/**
 * Like `guardedPost`, but returns the whole body of a short response and throws for a longer one.
 */
export async function guardedExchange(post: Post): Promise<Answer & { readonly body: string }> {
  const res = await open(post);
  const chunks: Buffer[] = [];
  let left = answerBytesMax;
  for await (const chunk of res as AsyncIterable<Buffer>) {
    left -= chunk.length;
    if (left < 0) throw new Error(`the response is longer than ${answerBytesMax} bytes`);
    chunks.push(chunk);
  }
  return { ...headOf(res), body: Buffer.concat(chunks).toString('utf8') };
}

/**
 * Posts to a URL that a tenant configured. Checks the address when the connection is made, so that
 * DNS rebinding reaches no private host. Does not follow redirects, and returns only the head of
 * the response. Rejects with an error that states the failure.
 */
export async function guardedPost(post: Post): Promise<Answer> {
  const res = await open(post);
  passOver(res);
  return headOf(res);
}

function headOf({ statusCode = 0, headers }: IncomingMessage): Answer {
  return { status: statusCode, headers };
}

function open({ url, headers, body, guard, timeoutMs }: Post): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const target = new URL(url);
  const host = target.hostname.replace(/^\[|\]$/g, '');
  const port = Number(target.port || (target.protocol === 'https:' ? 443 : 80));
  // Checks literal addresses here, because the socket calls `lookup` for host names only.
  const refused = literalRefusal(guard, host, port);
  if (refused !== undefined) {
    reject(refused);
    return promise;
  }
  const options: RequestOptions = {
    method: 'POST',
    headers: { ...headers, 'content-length': Buffer.byteLength(body) },
    agent: false,
    lookup: guard.lookup(port),
    signal: AbortSignal.timeout(timeoutMs),
  };
  const request = target.protocol === 'https:' ? requestHttps : requestHttp;
  const req = request(target, options, resolve);
  req.on('error', (error: Error) => {
    reject(error.name === 'AbortError' ? new Error(`no answer within ${timeoutMs} ms`) : error);
  });
  req.end(body);
  return promise;
}

function passOver(res: IncomingMessage): void {
  let left = answerBytesMax;
  res.on('error', () => {});
  res.on('data', (chunk: Buffer) => {
    left -= chunk.length;
    if (left < 0) res.destroy();
  });
}
