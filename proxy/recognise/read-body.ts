import type { IncomingMessage } from 'node:http';
import { GatewayError } from '../../shared/errors/gateway-error.ts';
import type { Recognition, RefusalForm } from '../call/recognition.ts';
import { singleHeader } from './agent-headers.ts';

const nothing = Buffer.alloc(0);

/** True if the request announces a body, even if the body then turns out to be empty. */
export function announcesBody(req: IncomingMessage): boolean {
  const length = req.headers['content-length'];
  return req.headers['transfer-encoding'] !== undefined || (length !== undefined && length !== '0');
}

/**
 * Reads a whole body. Refuses a body that is longer than `bytesMax` (without reading the rest), is
 * encoded, breaks off, or exceeds the budget behind `charge`. The request must be unread.
 */
export function readBody(
  req: IncomingMessage,
  bytesMax: number,
  charge: (bytes: number) => void = () => {},
): Buffer | Promise<Buffer> {
  refuseEncoding(req);
  if (Number(req.headers['content-length'] ?? 0) > bytesMax) throw tooLarge(bytesMax);
  return announcesBody(req) ? collect(req, bytesMax, charge) : nothing;
}

function collect(
  req: IncomingMessage,
  bytesMax: number,
  charge: (bytes: number) => void,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const onData = (chunk: Buffer) => {
      size += chunk.length;
      chunks.push(chunk);
      try {
        if (size > bytesMax) throw tooLarge(bytesMax);
        charge(chunk.length);
      } catch (refusal) {
        req.pause().off('data', onData);
        chunks.length = 0;
        reject(refusal);
      }
    };
    const onEnd = () =>
      resolve(chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks));
    const onBreak = () => {
      if (!req.readableEnded) reject(brokenOff());
    };
    if (req.destroyed) return reject(brokenOff());
    // The listeners are not removed, because removing them costs as much as adding them, and a
    // request ends only once.
    req.on('data', onData).on('end', onEnd).on('error', onBreak).on('close', onBreak);
  });
}

/**
 * Refuses a body that is not empty, for a binding without a body. An empty body may have any
 * framing.
 */
export function requireNoBody(req: IncomingMessage): Buffer | Promise<Buffer> {
  return announcesBody(req) ? readNothing(req) : nothing;
}

async function readNothing(req: IncomingMessage): Promise<Buffer> {
  try {
    return await readBody(req, 0);
  } catch (error) {
    if (!(error instanceof GatewayError && error.code === 'args.too_large')) throw error;
    throw new GatewayError('proxy.content_type_refused', {
      message: 'The binding of this call takes no body; send the arguments in the query.',
    });
  }
}

/** A call whose body is still arriving. */
export interface UnreadCall {
  readonly body: Promise<Buffer>;
  /** The form of the refusal if the body cannot be read. */
  readonly form: RefusalForm;
  readonly understand: (body: Buffer) => Recognition;
}

/** Recognises a call at once if its body is complete, otherwise when the body has arrived. */
export function whenRead(
  body: Buffer | Promise<Buffer>,
  form: RefusalForm,
  understand: (body: Buffer) => Recognition,
): Recognition | UnreadCall {
  return body instanceof Promise ? { body, form, understand } : understand(body);
}

/**
 * Refuses content codings, because the decision would not see the content that the upstream
 * decodes.
 */
function refuseEncoding(req: IncomingMessage): void {
  const coding = singleHeader(req, 'content-encoding');
  if (coding !== undefined && coding.trim().toLowerCase() !== 'identity') {
    throw new GatewayError('args.encoding_invalid', {
      message: 'The body is encoded; send it without Content-Encoding.',
    });
  }
  const transfer = singleHeader(req, 'transfer-encoding');
  if (transfer !== undefined && transfer.trim().toLowerCase() !== 'chunked') {
    throw new GatewayError('proxy.request_invalid', {
      message: 'The only transfer coding that is read is chunked.',
    });
  }
}

// RFC 9110, section 8.3.1: type, then parameters; a value may be quoted. No two parts of the
// expression match the same blanks, so that matching takes linear time.
const mediaTypeForm = /^([^\s;,]+)((?:[ \t]*;[ \t]*[^\s;,="]+=(?:"[^"\\,;]*"|[^\s;,"]*))*)$/;

/** Refuses any media type except `wanted`, and any charset except UTF-8. */
export function requireMediaType(req: IncomingMessage, wanted: string): void {
  const sent = singleHeader(req, 'content-type');
  const [, type = '', parameters = ''] = mediaTypeForm.exec(sent?.trim() ?? '') ?? [];
  if (type.toLowerCase() !== wanted) {
    throw new GatewayError('proxy.content_type_refused', {
      message: `This call takes a body of type ${wanted} only.`,
    });
  }
  for (const [, name = '', value = ''] of parameters.matchAll(/;[ \t]*([^\s=]+)="?([^\s";]*)/g)) {
    if (name.toLowerCase() === 'charset' && value.toLowerCase() === 'utf-8') continue;
    throw new GatewayError('args.encoding_invalid', {
      message: `The body must be UTF-8, and its type plain ${wanted}.`,
    });
  }
}

function tooLarge(bytesMax: number): GatewayError {
  return new GatewayError('args.too_large', {
    message: `The body is larger than ${bytesMax} bytes.`,
  });
}

function brokenOff(): GatewayError {
  return new GatewayError('proxy.request_invalid', { message: 'The request broke off.' });
}
