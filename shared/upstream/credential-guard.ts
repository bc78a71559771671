import { type CompressedBody, compressedBody, decoded } from './compressed-body.ts';
import type { ResponseFilter } from './response-filter.ts';
import { type SecretScanner, secretScanner } from './secret-scanner.ts';

const scannedBytesMax = 1024 * 1024;
const none = Buffer.alloc(0);

type Headers = Readonly<Record<string, string | readonly string[]>>;

/**
 * Returns a filter that cuts a response if it reflects one of the secrets in a header or in the
 * body. Text is scanned completely; of all other content, only the first MiB is scanned. Only bytes
 * that could begin a secret are delayed, so that events are forwarded at once. A body that begins
 * like a compressed one is decompressed first.
 */
export function reflectionFilter(secrets: readonly string[]): ResponseFilter {
  const scanners = secrets.filter((secret) => secret !== '').map(secretScanner);
  let carry = none;
  let scanned = 0;
  let text = true;
  let encoding = '';
  let packed: CompressedBody | undefined;
  const reflects = (bytes: Buffer) => scanners.some((scanner) => scanner.finds(bytes));

  return {
    bytesMax: scannedBytesMax,
    head(_status, headers) {
      if (scanners.length === 0) return 'pass';
      if (headersReflect(headers, scanners)) return 'cut';
      text = isText(headerValue(headers, 'content-type'));
      encoding = headerValue(headers, 'content-encoding').trim().toLowerCase();
      packed = compressedBody({ isText: text, reflects });
      return encoding === '' || encoding === 'identity' ? 'stream' : 'buffer';
    },
    chunk(chunk, last) {
      if (!text && scanned >= scannedBytesMax) return chunk;
      const bytes = packed?.take(chunk, last) ?? chunk;
      if (bytes === 'cut') return 'cut';
      scanned += bytes.length;
      const seen = carry.length === 0 ? bytes : Buffer.concat([carry, bytes]);
      if (reflects(seen)) return 'cut';
      const givenUp = last || (!text && scanned >= scannedBytesMax);
      const open = givenUp ? 0 : longestOpen(seen, scanners);
      carry = open === 0 ? none : Buffer.from(seen.subarray(seen.length - open));
      return open === 0 ? seen : seen.subarray(0, seen.length - open);
    },
    // An upstream may compress although the request forbids it. The scan decodes the body, as the
    // agent would.
    whole(bytes) {
      const body = decoded(bytes, encoding);
      return body === undefined || reflects(body) ? 'cut' : bytes;
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

const notText = [
  /^(?:image\/(?!svg)|audio\/|video\/|font\/)/i,
  /^(?:application|binary)\/(?:octet-stream|pdf|wasm)\b/i,
  /^application\/(?:[^\s;]*[.+-])?(?:zip|gzip|tgz|tar|zstd|xz|bzip2|archive)\b/i,
];

/** True if a media type is text. Unknown types count as text. */
function isText(contentType: string): boolean {
  return !notText.some((types) => types.test(contentType));
}
