import { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import type { Outgoing } from '../../shared/upstream/outgoing.ts';

/** The body to send; `gone` if the agent disconnected before its body was complete. */
type ReadyBody = Buffer | Readable | null | 'gone';

// Bodies up to this size are read completely first, so that they are sent in one write.
const collectedBytesMax = 64 * 1024;

/**
 * Calls `ready` with the body to send, and with the declared length of a streamed body, if any. The
 * agent's request is not piped directly, because an upstream that stops reading would close the
 * connection on which the agent waits for the response.
 */
export function readyBody(
  body: Outgoing['body'],
  ready: (body: ReadyBody, lengthBytes?: number) => void,
): void {
  if (!(body instanceof IncomingMessage)) {
    ready(body);
    return;
  }
  const declared = body.headers['content-length'];
  const lengthBytes = declared === undefined ? undefined : Number(declared);
  // Neither length nor transfer coding: there is no body (RFC 9112 section 6.3).
  const absent = lengthBytes === undefined && body.headers['transfer-encoding'] === undefined;
  if (absent || lengthBytes === 0) {
    ready(null);
    return;
  }
  if (body.destroyed) {
    ready('gone');
    return;
  }
  const isSmall = lengthBytes !== undefined && lengthBytes <= collectedBytesMax;
  if (isSmall) collect(body, ready);
  else ready(shielded(body), lengthBytes);
}

function collect(req: IncomingMessage, ready: (body: ReadyBody) => void): void {
  const chunks: Buffer[] = [];
  const onData = (chunk: Buffer) => chunks.push(chunk);
  const done = (body: ReadyBody) => {
    req.off('data', onData).off('end', onEnd).off('close', onClose);
    ready(body);
  };
  const onEnd = () => {
    const [first] = chunks;
    done(chunks.length === 1 && first !== undefined ? first : Buffer.concat(chunks));
  };
  const onClose = () => done('gone');
  req.on('data', onData).on('end', onEnd).on('close', onClose);
}

function shielded(req: IncomingMessage): Readable {
  const body = new Readable({
    read: () => {
      req.resume();
    },
    destroy(error, callback) {
      req.off('data', onData).off('end', onEnd).off('close', onClose);
      // The rest of the body is read and discarded, so that the response can reach the agent.
      req.resume();
      callback(error);
    },
  });
  const onData = (chunk: Buffer) => {
    if (!body.push(chunk)) req.pause();
  };
  const onEnd = () => body.push(null);
  const onClose = () => {
    if (!req.complete) body.destroy(new Error('The agent went away while sending.'));
  };
  req.on('data', onData).on('end', onEnd).on('close', onClose).pause();
  return body;
}
