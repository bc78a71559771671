import type { Socket } from 'node:net';

type Extension = readonly [type: number, data: Buffer];

interface HelloParts {
  /** Name in the SNI extension; undefined: no such extension. */
  readonly sni?: string | undefined;
  readonly extensions?: readonly Extension[];
}

function vector(lengthBytes: 1 | 2 | 3, ...parts: readonly Buffer[]): Buffer {
  const body = Buffer.concat(parts);
  const length = Buffer.alloc(lengthBytes);
  length.writeUIntBE(body.length, 0, lengthBytes);
  return Buffer.concat([length, body]);
}

function number(value: number): Buffer {
  return Buffer.from([value >> 8, value & 255]);
}

/** Returns an SNI extension (RFC 6066 section 3) with these names, each of type host_name. */
export function sniExtension(...names: readonly string[]): Extension {
  const list = names.map((name) => Buffer.concat([Buffer.from([0]), vector(2, Buffer.from(name))]));
  return [0, vector(2, ...list)];
}

/** Returns a ClientHello message (RFC 8446 section 4.1.2), without records around it. */
export function helloMessage({ sni, extensions = [] }: HelloParts = {}): Buffer {
  const all = [...(sni === undefined ? [] : [sniExtension(sni)]), ...extensions];
  const versions: Extension = [43, vector(1, number(0x0304))];
  const written = [...all, versions].map(([type, data]) =>
    Buffer.concat([number(type), vector(2, data)]),
  );
  const body = [
    number(0x0303),
    Buffer.alloc(32, 7),
    vector(1, Buffer.alloc(32, 9)),
    vector(2, number(0x1301)),
    vector(1, Buffer.from([0])),
    vector(2, ...written),
  ];
  return Buffer.concat([Buffer.from([1]), vector(3, ...body)]);
}

/** Splits a message into records of at most `bytesMax` bytes. */
export function inRecords(message: Buffer, bytesMax = 16_384): Buffer {
  const records: Buffer[] = [];
  for (let at = 0; at < message.length; at += bytesMax) {
    records.push(Buffer.from([0x16, 3, 1]), vector(2, message.subarray(at, at + bytesMax)));
  }
  return Buffer.concat(records);
}

/** Returns a complete ClientHello, as it is sent on the wire. */
export function clientHello(parts: HelloParts = {}): Buffer {
  return inRecords(helloMessage(parts));
}

const retryRandom = 'cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c';

/** Returns a HelloRetryRequest (RFC 8446 section 4.1.4), as a server sends it. */
export function helloRetryRequest(): Buffer {
  const body = [
    number(0x0303),
    Buffer.from(retryRandom, 'hex'),
    vector(1, Buffer.alloc(32, 9)),
    number(0x1301),
    Buffer.from([0]),
    vector(2),
  ];
  return inRecords(Buffer.concat([Buffer.from([2]), vector(3, ...body)]));
}

/** Returns a CONNECT request followed by a ClientHello, as Latin-1 text. */
export function connectWithHello(authority: string, sni: string): string {
  const head = `CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`;
  return head + clientHello({ sni }).toString('latin1');
}

/** Responds to a ClientHello with one byte and sends nothing more. */
export function answerOnce(socket: Socket): void {
  socket.once('data', () => socket.write('x'));
  socket.on('error', () => {}).resume();
}
