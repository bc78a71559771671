import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Response } from 'express';
import type { AnyOperation } from '../../../shared/contract/base/operation.ts';
import { toAnswerable } from './errors.ts';
import { recordOf } from './request-log.ts';
import type { Reply } from './route.ts';

const jsonType = 'application/json; charset=utf-8';

/** Sends the reply of a use case. */
export async function send(
  res: Response,
  operation: AnyOperation,
  reply: Reply<AnyOperation>,
): Promise<void> {
  const { contentType } = operation.success;
  res.status(reply.status ?? operation.success.status);
  for (const [name, value] of Object.entries(reply.headers ?? {})) res.setHeader(name, value);
  if ('stream' in reply) return sendStream(res, reply.stream, contentType);
  if ('bytes' in reply) {
    setType(res, contentType ?? 'application/octet-stream');
    res.end(reply.bytes);
    return;
  }
  setType(res, contentType ?? jsonType);
  res.end(reply.body === undefined ? undefined : JSON.stringify(reply.body));
}

function setType(res: Response, contentType: string): void {
  if (!res.hasHeader('content-type')) res.setHeader('content-type', contentType);
}

const stalledMs = 120_000;

/** Streams with backpressure; ends the iterator when the client disconnects. */
async function sendStream(
  res: Response,
  stream: AsyncIterable<string | Uint8Array>,
  contentType: string | undefined,
): Promise<void> {
  setType(res, contentType ?? 'application/octet-stream');
  // A client that accepts no data for this long is disconnected.
  res.setTimeout(stalledMs, () => res.destroy());
  res.flushHeaders();
  if (res.req.method === 'HEAD') {
    res.end();
    return;
  }
  await pipeline(Readable.from(logFailures(stream, res), { objectMode: true }), res);
}

/**
 * Records a failure of the stream before passing it on, because a failing stream closes the
 * connection at once.
 */
async function* logFailures(stream: AsyncIterable<string | Uint8Array>, res: Response) {
  try {
    yield* stream;
  } catch (thrown) {
    recordOf(res).error = toAnswerable(thrown);
    throw thrown;
  }
}
