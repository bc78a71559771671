import {
  brotliDecompressSync,
  constants,
  gunzipSync,
  inflateSync,
  zstdDecompressSync,
} from 'node:zlib';

const decodedBytesMax = 16 * 1024 * 1024;
const heldBytesMax = 1024 * 1024;
const startDecodedBytesMax = 2 * 1024 * 1024;
const smallestStartBytes = 16;
const probeBytes = 1024;
const none = Buffer.alloc(0);

type Compression = 'gzip' | 'deflate' | 'zstd';

const firstBytes: readonly (readonly [Compression, readonly number[]])[] = [
  ['gzip', [0x1f, 0x8b, 0x08]],
  ['zstd', [0x28, 0xb5, 0x2f, 0xfd]],
  ...[0x01, 0x5e, 0x9c, 0xda].map((level) => ['deflate', [0x78, level]] as const),
];

interface Bounds {
  readonly maxOutputLength: number;
  readonly finishFlush?: number;
}

/** Decodes a content encoding. Undefined if the body is invalid or exceeds the bounds. */
export function decoded(bytes: Buffer, encoding: string): Buffer | undefined {
  // A 304 response, and a response to HEAD, can have a Content-Encoding although there is no body.
  if (bytes.length === 0) return bytes;
  return readable(() => decompress(bytes, encoding, { maxOutputLength: decodedBytesMax }));
}

function readable(read: () => Buffer | undefined): Buffer | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

function decompress(bytes: Buffer, encoding: string, bounds: Bounds): Buffer | undefined {
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
}

/** Buffers a compressed body without Content-Encoding until it is checked. */
export interface CompressedBody {
  /** Returns the bytes that may be forwarded now, or `cut`. */
  take(bytes: Buffer, last: boolean): Buffer | 'cut';
}

interface CompressedBodySettings {
  /**
   * True if the body is text, which must be decompressed completely. Of other content, only the
   * start is decompressed.
   */
  readonly isText: boolean;
  readonly reflects: (unpacked: Buffer) => boolean;
}

/**
 * Detects compression by the first bytes, whatever the header declares, because clients do the
 * same.
 */
export function compressedBody(settings: CompressedBodySettings): CompressedBody {
  let packing: Compression | 'open' | undefined = 'open';
  let held: Buffer[] = [];
  let heldBytes = 0;
  let probed = false;

  const release = () => {
    packing = undefined;
    const bytes = held.length === 1 ? (held[0] ?? none) : Buffer.concat(held);
    held = [];
    return bytes;
  };

  return {
    take(bytes, last) {
      if (packing === undefined) return bytes;
      held.push(bytes);
      heldBytes += bytes.length;
      if (packing === 'open') {
        packing = compressionOf(held.length === 1 ? bytes : Buffer.concat(held));
        if (packing === undefined || (packing === 'open' && last)) return release();
        if (packing === 'open') return none;
      }
      if (!probed && (last || heldBytes >= probeBytes)) {
        probed = true;
        if (packing === 'deflate' && !isDeflate(Buffer.concat(held))) return release();
      }
      if (!last && heldBytes < heldBytesMax) return none;
      const kind = packing;
      const all = release();
      return reflectsCompressed(all, { kind, isWhole: last, ...settings }) ? 'cut' : all;
    },
  };
}

/**
 * A text that cannot be decompressed counts as reflecting the secret, because the agent may be able
 * to decompress it.
 */
function reflectsCompressed(
  bytes: Buffer,
  {
    kind,
    isWhole,
    isText,
    reflects,
  }: CompressedBodySettings & { readonly kind: Compression; readonly isWhole: boolean },
): boolean {
  if (isText) {
    const bounds = { maxOutputLength: decodedBytesMax, finishFlush: flushOf(kind) };
    const whole = isWhole ? readable(() => decompress(bytes, kind, bounds)) : undefined;
    return whole === undefined || reflects(whole);
  }
  const start = decompressedStart(bytes, kind);
  return start !== undefined && reflects(start);
}

function compressionOf(bytes: Buffer): Compression | 'open' | undefined {
  let open: 'open' | undefined;
  for (const [packing, first] of firstBytes) {
    const isAlike = first.every((byte, index) => (bytes[index] ?? byte) === byte);
    if (isAlike && bytes.length >= first.length) return packing;
    if (isAlike) open = 'open';
  }
  return open;
}

/**
 * Tests a suspected deflate body by decompression. Its first two bytes are weak evidence, because a
 * text may also begin with `x^`.
 */
function isDeflate(bytes: Buffer): boolean {
  try {
    inflateSync(bytes.subarray(0, probeBytes), {
      maxOutputLength: startDecodedBytesMax,
      finishFlush: constants.Z_SYNC_FLUSH,
    });
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE';
  }
}

/** The flush mode that decompresses a truncated body as far as possible. */
function flushOf(packing: Compression): number {
  return packing === 'zstd' ? constants.ZSTD_e_flush : constants.Z_SYNC_FLUSH;
}

/** Decompresses the start of a body: as many of its bytes as fit the bounds. */
function decompressedStart(bytes: Buffer, packing: Compression): Buffer | undefined {
  const bounds = { maxOutputLength: startDecodedBytesMax, finishFlush: flushOf(packing) };
  for (let size = Math.min(bytes.length, heldBytesMax); ; size = Math.ceil(size / 2)) {
    const start = readable(() => decompress(bytes.subarray(0, size), packing, bounds));
    if (start !== undefined || size <= smallestStartBytes) return start;
  }
}
