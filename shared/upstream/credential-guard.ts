import { brotliDecompressSync, gunzipSync, inflateSync, zstdDecompressSync } from 'node:zlib';
import type { ResponseFilter } from './response-filter.ts';
import { type SecretScanner, secretScanner } from './secret-scanner.ts';

const scannedBytesMax = 1024 * 1024;
const decodedBytesMax = 16 * 1024 * 1024;
const none = Buffer.alloc(0);

type Headers = Readonly<Record<string, string | readonly string[]>>;

/**
 * Cuts an answer that carries one of the secrets back, in its header or its body. Text is scanned
 * to its end, anything else for its first MiB. Only bytes that could begin a secret are held
 * back, so that events pass at once.
 */
export function reflectionFilter(secrets: readonly string[]): ResponseFilter {
  const scanners = secrets.filter((secret) => secret !== '').map(secretScanner);
  let carry = none;
  let scanned = 0;
  let text = true;
  let encoding = '';

  return {
    bytesMax: scannedBytesMax,
    head(_status, headers) {
      if (scanners.length === 0) return 'pass';
      if (headersReflect(headers, scanners)) return 'cut';
      text = isText(headerValue(headers, 'content-type'));
      encoding = headerValue(headers, 'content-encoding').trim().toLowerCase();
      return encoding === '' || encoding === 'identity' ? 'stream' : 'buffer';
    },
    chunk(bytes, last) {
      if (!text && scanned >= scannedBytesMax) return bytes;
      scanned += bytes.length;
      const seen = carry.length === 0 ? bytes : Buffer.concat([carry, bytes]);
      if (scanners.some((scanner) => scanner.finds(seen))) return 'cut';
      const givenUp = last || (!text && scanned >= scannedBytesMax);
      const open = givenUp ? 0 : longestOpen(seen, scanners);
      carry = open === 0 ? none : Buffer.from(seen.subarray(seen.length - open));
      return open === 0 ? seen : seen.subarray(0, seen.length - open);
    },
    // An upstream that encodes although it was asked not to: read what the agent would read.
    whole(bytes) {
      const decoded = decode(bytes, encoding);
      const reflected = decoded === undefined || scanners.some((scanner) => scanner.finds(decoded));
      return reflected ? 'cut' : bytes;
    },
  };
}

function longestOpen(bytes: Buffer, scanners: readonly SecretScanner[]): number {
  let open = 0;
  for (const scanner of scanners) open = Math.max(open, scanner.openBytes(bytes));
  return open;
}

function headersReflect(headers: Headers, scanners: readonly SecretScanner[]): boolean {
  for (const [name, value] of Object.entries(headers)) {
    const bytes = Buffer.from([name, value].flat().join('\n'), 'latin1');
    if (scanners.some((scanner) => scanner.finds(bytes))) return true;
  }
  return false;
}

function headerValue(headers: Headers, name: string): string {
  const value = headers[name];
  return typeof value === 'string' ? value : (value?.join(', ') ?? '');
}

/** Media types that are not text; whatever is not known is scanned as text. */
function isText(contentType: string): boolean {
  return !/^(?:image\/(?!svg)|audio\/|video\/|font\/|application\/(?:octet-stream|pdf|zip|gzip|x-tar|wasm)\b)/i.test(
    contentType,
  );
}

/** Undefined when the body cannot be read within bounds. */
function decode(bytes: Buffer, encoding: string): Buffer | undefined {
  // A HEAD or 304 answer names the encoding of a body that is not there.
  if (bytes.length === 0) return bytes;
  const bounds = { maxOutputLength: decodedBytesMax };
  try {
    switch (encoding) {
      case 'gzip':
      case 'x-gzip':
        return gunzipSync(bytes, bounds);
      case 'deflate':
        return inflateSync(bytes, bounds);
      case 'br':
        return brotliDecompressSync(bytes, bounds);
      case 'zstd':
        return zstdDecompressSync(bytes, bounds);
      default:
        return undefined;
    }
  } catch {
    return undefined;
  }
}
