/** The plain-text contents of a ClientHello. */
export interface ClientHello {
  /**
   * The name in the SNI extension (RFC 6066 section 3), as sent; undefined if there is no such
   * extension.
   */
  readonly serverName: string | undefined;
  /** True if there is an ECH or ESNI extension; real ECH and GREASE look alike. */
  readonly isEncrypted: boolean;
}

/** `http`: the first byte is a capital letter, as in a method. */
type SettledReading =
  | { readonly kind: 'hello'; readonly hello: ClientHello; readonly endsAt: number }
  | { readonly kind: 'http' | 'other' | 'malformed' | 'too_large' };
/** `more`: the message is incomplete. */
type HelloReading = SettledReading | { readonly kind: 'more' };

interface ReaderOptions {
  /** The largest ClientHello that is read, records included. */
  readonly bytesMax: number;
  /**
   * True to skip other records before the hello. After a HelloRetryRequest, early data or a dummy
   * CCS may precede the hello.
   */
  readonly skipsOtherRecords?: boolean;
}

// RFC 8446 sections 4 and 5.1.
const handshakeRecord = 0x16;
const otherRecords: ReadonlySet<number> = new Set([0x14, 0x17]);
const clientHelloType = 1;
const recordHeaderBytes = 5;
const messageHeaderBytes = 4;
// Plaintext of at most 2^14 bytes, ciphertext of at most 256 more.
const recordBytesMax = 16_384 + 256;

/** Reads one ClientHello from bytes that arrive in pieces, across any number of records. */
export class ClientHelloReader {
  readonly #options: ReaderOptions;
  #unread: Buffer = Buffer.alloc(0);
  #message: Buffer = Buffer.alloc(0);
  /** Number of bytes that were read before `#unread`. */
  #consumed = 0;

  constructor(options: ReaderOptions) {
    this.#options = options;
  }

  /** Adds bytes. After any result except `more`, the reader must not be used again. */
  push(bytes: Buffer): HelloReading {
    this.#unread = this.#unread.length === 0 ? bytes : Buffer.concat([this.#unread, bytes]);
    for (;;) {
      const step = this.#readRecord();
      if (step !== 'next') return step;
    }
  }

  #readRecord(): HelloReading | 'next' {
    const [type, major] = this.#unread;
    if (type === undefined) return this.#more();
    if (type !== handshakeRecord && !this.#maySkip(type)) return notHandshake(type, this.#consumed);
    if (major !== undefined && major !== 3) return { kind: 'malformed' };
    if (this.#unread.length < recordHeaderBytes) return this.#more();
    const length = this.#unread.readUInt16BE(3);
    if (length === 0 || length > recordBytesMax) return { kind: 'malformed' };
    const end = recordHeaderBytes + length;
    if (this.#consumed + end > this.#options.bytesMax) return { kind: 'too_large' };
    if (this.#unread.length < end) return this.#more();
    const fragment = this.#unread.subarray(recordHeaderBytes, end);
    this.#unread = this.#unread.subarray(end);
    this.#consumed += end;
    return type === handshakeRecord ? this.#readMessage(fragment) : 'next';
  }

  #maySkip(type: number): boolean {
    const isBetween = this.#message.length === 0;
    return this.#options.skipsOtherRecords === true && isBetween && otherRecords.has(type);
  }

  #more(): HelloReading {
    const size = this.#consumed + this.#unread.length;
    return size >= this.#options.bytesMax ? { kind: 'too_large' } : { kind: 'more' };
  }

  #readMessage(fragment: Buffer): HelloReading | 'next' {
    this.#message = Buffer.concat([this.#message, fragment]);
    const message = this.#message;
    if (message[0] !== clientHelloType) return { kind: 'malformed' };
    if (message.length < messageHeaderBytes) return 'next';
    const end = messageHeaderBytes + message.readUIntBE(1, 3);
    if (end > this.#options.bytesMax) return { kind: 'too_large' };
    if (message.length < end) return 'next';
    // Another message in the same record could be a second hello.
    if (message.length > end) return { kind: 'malformed' };
    const hello = parseHello(message.subarray(messageHeaderBytes));
    return hello === undefined
      ? { kind: 'malformed' }
      : { kind: 'hello', hello, endsAt: this.#consumed };
  }
}

function notHandshake(type: number, consumed: number): HelloReading {
  if (consumed > 0) return { kind: 'malformed' };
  return { kind: type >= 0x41 && type <= 0x5a ? 'http' : 'other' };
}

/**
 * Reads length-prefixed fields in order; a field beyond the end and all later ones are undefined.
 */
class Fields {
  readonly #bytes: Buffer;
  #at = 0;
  #isBroken = false;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get isAtEnd(): boolean {
    return !this.#isBroken && this.#at === this.#bytes.length;
  }

  get isBroken(): boolean {
    return this.#isBroken;
  }

  number(bytes: 1 | 2): number {
    const field = this.fixed(bytes);
    return field === undefined ? 0 : field.readUIntBE(0, bytes);
  }

  fixed(length: number): Buffer | undefined {
    const end = this.#at + length;
    this.#isBroken ||= end > this.#bytes.length;
    if (this.#isBroken) return undefined;
    const field = this.#bytes.subarray(this.#at, end);
    this.#at = end;
    return field;
  }

  /** A vector, preceded by its length in `lengthBytes` bytes. */
  vector(lengthBytes: 1 | 2): Buffer | undefined {
    return this.fixed(this.number(lengthBytes));
  }
}

// Extension types: SNI (RFC 6066 section 3), ECH (RFC 9849 and its drafts), and ESNI.
const serverNameExtension = 0;
const encryptedHelloExtensions: ReadonlySet<number> = new Set([
  0xfe0d, 0xfe0c, 0xfe0b, 0xfe0a, 0xfe09, 0xfe08, 0xffce,
]);

/** Parses a ClientHello (RFC 8446 section 4.1.2); undefined if a length is wrong. */
function parseHello(body: Buffer): ClientHello | undefined {
  const fields = new Fields(body);
  fields.fixed(2 + 32);
  fields.vector(1);
  fields.vector(2);
  fields.vector(1);
  if (fields.isAtEnd) return { serverName: undefined, isEncrypted: false };
  const extensions = fields.vector(2);
  return extensions === undefined || !fields.isAtEnd ? undefined : readExtensions(extensions);
}

function readExtensions(bytes: Buffer): ClientHello | undefined {
  const fields = new Fields(bytes);
  const seen = new Set<number>();
  let serverName: string | undefined;
  let isEncrypted = false;
  while (!fields.isAtEnd) {
    const type = fields.number(2);
    const data = fields.vector(2);
    // RFC 8446 section 4.2 forbids duplicate extensions; parsers differ in which one they read.
    if (data === undefined || seen.has(type)) return undefined;
    seen.add(type);
    isEncrypted ||= encryptedHelloExtensions.has(type);
    if (type !== serverNameExtension) continue;
    serverName = readServerName(data);
    if (serverName === undefined) return undefined;
  }
  return { serverName, isEncrypted };
}

/** The name, if there is exactly one and its type is host_name. */
function readServerName(bytes: Buffer): string | undefined {
  const outer = new Fields(bytes);
  const list = outer.vector(2);
  if (list === undefined || !outer.isAtEnd) return undefined;
  const fields = new Fields(list);
  const type = fields.number(1);
  const name = fields.vector(2);
  if (name === undefined || name.length === 0 || type !== 0 || !fields.isAtEnd) return undefined;
  return name.toString('latin1');
}

// SHA-256 of "HelloRetryRequest" (RFC 8446 section 4.1.3).
const retryRandom = Buffer.from(
  'cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c',
  'hex',
);
// The offset after record header, message header and legacy version.
const randomAt = recordHeaderBytes + messageHeaderBytes + 2;
const serverHelloType = 2;

/**
 * True if a server's first bytes ask for a second ClientHello, which must be checked as well.
 * Undefined if there are too few bytes.
 */
export function isRetryRequest(bytes: Buffer): boolean | undefined {
  const [type] = bytes;
  if (type === undefined) return undefined;
  if (type !== handshakeRecord) return false;
  const messageType = bytes[recordHeaderBytes];
  if (messageType !== undefined && messageType !== serverHelloType) return false;
  const random = bytes.subarray(randomAt, randomAt + retryRandom.length);
  return random.length < retryRandom.length ? undefined : random.equals(retryRandom);
}
