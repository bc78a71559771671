import type { IncomingMessage } from 'node:http';
import { argumentLimits, parseStrictJsonInSteps } from '../../../shared/base/strict-json.ts';
import type { AnyOperation, BodyType } from '../../../shared/contract/base/operation.ts';
import { GatewayError } from '../../../shared/errors/gateway-error.ts';
import { pauser, runWithPauses } from '../scheduling/pauser.ts';

export const bodyBytesMaxDefault = 1_048_576;
const depthMax = 64;
const discardBytesMax = 8 * 1_048_576;
const ndjson = 'application/x-ndjson';
const utf8 = new TextDecoder('utf-8', { fatal: true });

/**
 * Maximum size of the body that an operation without a body accepts: an empty object and white
 * space.
 */
const emptyBytesMax = 1_024;
const emptyObject = /^[ \t\r\n]*\{[ \t\r\n]*\}[ \t\r\n]*$/;

/**
 * Reads the body of a request. For an operation without a body, only an empty body or `{}` is
 * accepted.
 */
export async function readBodyOf(operation: AnyOperation, req: IncomingMessage): Promise<Buffer> {
  if (operation.body !== undefined || operation.bodyType === 'raw') {
    return readBody(req, operation.bodyBytesMax ?? bodyBytesMaxDefault);
  }
  const { 'transfer-encoding': encoding, 'content-length': length } = req.headers;
  if (encoding !== undefined || length !== undefined) await requireNoBody(req);
  return Buffer.alloc(0);
}

async function requireNoBody(req: IncomingMessage): Promise<void> {
  try {
    const raw = await readBody(req, emptyBytesMax);
    if (raw.length === 0) return;
    if (isJson(mediaOf(req.headers['content-type'])) && emptyObject.test(raw.toString('latin1'))) {
      return;
    }
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
  }
  throw new GatewayError('request.invalid', {
    message: 'This operation takes no body: send none, or {}.',
  });
}

/** Reads a whole body; throws as soon as it exceeds `bytesMax`. */
export async function readBody(req: IncomingMessage, bytesMax: number): Promise<Buffer> {
  const encoding = req.headers['content-encoding'];
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
    throw new GatewayError('args.encoding_invalid', {
      message: `Content-Encoding ${encoding.slice(0, 40)} is not accepted: send the body unencoded.`,
    });
  }
  if (Number(req.headers['content-length'] ?? 0) > bytesMax) throw tooLarge(bytesMax);
  const chunks: Buffer[] = [];
  let bytes = 0;
  // The stream stays open after an early rejection, because the response uses the same connection.
  const arriving: AsyncIterable<Buffer> = req.iterator({ destroyOnReturn: false });
  for await (const chunk of arriving) {
    bytes += chunk.length;
    if (bytes > bytesMax) throw tooLarge(bytesMax);
    chunks.push(chunk);
  }
  return chunks.length === 1 ? (chunks[0] ?? Buffer.alloc(0)) : Buffer.concat(chunks, bytes);
}

/**
 * Reads and drops the rest of a request that was answered early. If a connection is closed with
 * unread bytes, it is reset, and the client may not see the response. Reading ends with the
 * server's request timeout or after `discardBytesMax`.
 */
export function discardRest(req: IncomingMessage): void {
  let bytes = 0;
  req.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > discardBytesMax) req.destroy();
  });
  req.on('error', () => undefined);
}

function tooLarge(bytesMax: number): GatewayError {
  return new GatewayError('request.body_too_large', {
    message: `The body is larger than ${bytesMax} bytes.`,
  });
}

/** Parses a body in the form that its operation expects; undefined for an empty body. */
export async function parseBody(
  raw: Buffer,
  contentType: string | undefined,
  operation: AnyOperation,
): Promise<unknown> {
  const bodyType = operation.bodyType ?? 'json';
  if (raw.length === 0 || bodyType === 'raw') return undefined;
  switch (bodyFormat(contentType, bodyType)) {
    case 'ndjson':
      return parseLines(raw);
    case 'form':
      return parseForm(raw);
    case 'json':
      return parseJson(raw, operation);
  }
}

function bodyFormat(
  contentType: string | undefined,
  bodyType: Exclude<BodyType, 'raw'>,
): 'json' | 'form' | 'ndjson' {
  const media = mediaOf(contentType);
  if (bodyType === 'ndjson') {
    if (media === ndjson) return 'ndjson';
    throw new GatewayError('request.invalid', { message: `Content-Type must be ${ndjson}.` });
  }
  if (bodyType !== 'form') {
    if (isJson(media)) return 'json';
  }
  if (bodyType !== 'json') {
    if (media === '' || media === 'application/x-www-form-urlencoded') return 'form';
  }
  const wanted = bodyType === 'form' ? 'application/x-www-form-urlencoded' : 'application/json';
  throw new GatewayError('request.invalid', { message: `Content-Type must be ${wanted}.` });
}

function mediaOf(contentType: string | undefined): string {
  return contentType?.split(';', 1)[0]?.trim().toLowerCase() ?? '';
}

function isJson(media: string): boolean {
  return media === '' || media === 'application/json' || media.endsWith('+json');
}

/**
 * Parses JSON. Accepts only JSON that every parser reads as the same value and that can be stored:
 * no U+0000 (Postgres cannot store it), no `__proto__`.
 */
async function parseJson(
  raw: Buffer,
  { bodySize = argumentLimits }: AnyOperation,
): Promise<unknown> {
  const pause = pauser();
  const value = await runWithPauses(parseStrictJsonInSteps(raw, { size: bodySize }), pause);
  await pause();
  // The path of a value is built only if the value is rejected, because building paths costs more
  // than the check.
  if (!isStorable(value, 1)) refuseUnstorable(value, 'body');
  return value;
}

function decode(raw: Buffer): string {
  try {
    return utf8.decode(raw);
  } catch {
    throw new GatewayError('args.encoding_invalid', { message: 'The body is not valid UTF-8.' });
  }
}

function isStorable(value: unknown, depth: number): boolean {
  if (typeof value === 'string') return isStorableText(value);
  if (typeof value === 'number') {
    return Number.isInteger(value) ? Number.isSafeInteger(value) : Number.isFinite(value);
  }
  if (typeof value !== 'object' || value === null) return true;
  if (depth > depthMax) return false;
  if (Array.isArray(value)) return value.every((item) => isStorable(item, depth + 1));
  for (const name of Object.keys(value)) {
    if (name === '__proto__' || !isStorableText(name)) return false;
    if (!isStorable((value as Record<string, unknown>)[name], depth + 1)) return false;
  }
  return true;
}

function isStorableText(text: string): boolean {
  return text.isWellFormed() && !text.includes('\0');
}

/** Throws if a value from `JSON.parse` cannot be stored exactly. */
export function refuseUnstorable(value: unknown, path: string, depth = 1): void {
  if (typeof value === 'string') {
    refuseText(value, path);
  } else if (typeof value === 'number') {
    if (Number.isInteger(value) ? !Number.isSafeInteger(value) : !Number.isFinite(value)) {
      throw new GatewayError('args.number_unsafe', {
        message: `${path}: the number cannot be represented exactly; send it as a string.`,
      });
    }
  } else if (typeof value === 'object' && value !== null) {
    if (depth > depthMax) throw new GatewayError('args.too_deep');
    if (Array.isArray(value)) {
      value.forEach((item, index) => {
        refuseUnstorable(item, `${path}[${index}]`, depth + 1);
      });
    } else {
      for (const [name, member] of Object.entries(value)) {
        refuseName(name, path);
        refuseUnstorable(member, `${path}.${name}`, depth + 1);
      }
    }
  }
}

function refuseName(name: string, path: string): void {
  if (name === '__proto__') {
    throw new GatewayError('args.schema_invalid', {
      message: `${path}: a member may not be called __proto__.`,
    });
  }
  refuseText(name, path);
}

/** Throws if a text cannot be stored because it contains U+0000 or half of a surrogate pair. */
export function refuseText(text: string, path: string): void {
  if (isStorableText(text)) return;
  throw new GatewayError('args.encoding_invalid', {
    message: `${path}: holds U+0000 or half of a surrogate pair.`,
  });
}

/** Splits a body into lines. Keeps the lines as received, because the operation parses them. */
function parseLines(raw: Buffer): string[] {
  const lines = decode(raw).split('\n');
  // A final line feed ends the last line and begins no new one.
  if (lines.at(-1) === '') lines.pop();
  for (const [index, line] of lines.entries()) refuseText(line, `line ${index + 1}`);
  return lines;
}

function parseForm(raw: Buffer): Record<string, string> {
  return readPairs(new URLSearchParams(decode(raw)), 'body');
}

/**
 * Converts name and value pairs to an object. Throws for a name given twice, because the value
 * would be ambiguous.
 */
export function readPairs(pairs: URLSearchParams, where: string): Record<string, string> {
  const values: Record<string, string> = {};
  for (const [name, value] of pairs) {
    if (name === '__proto__' || Object.hasOwn(values, name)) {
      throw new GatewayError('args.ambiguous', {
        message: `${where}: ${name.slice(0, 100)} may be given once only.`,
      });
    }
    refuseText(value, `${where}: ${name.slice(0, 100)}`);
    values[name] = value;
  }
  return values;
}
