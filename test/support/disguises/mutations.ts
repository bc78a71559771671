import fc from 'fast-check';
import { deniedBody, marker, type Place } from './place.ts';

const headerNames = [
  'Content-Type',
  'Content-Length',
  'Transfer-Encoding',
  'Content-Encoding',
  'Connection',
  'Expect',
  'Host',
  'Mcp-Method',
  'Mcp-Session-Id',
  'X-HTTP-Method-Override',
  'X_Original_URL',
  'Action-Passport',
  'Accept',
  'User-Agent',
  'Idempotency-Key',
];
const headerValues = fc.oneof(
  fc.constantFrom('chunked', 'identity', '0', '5', 'close', '100-continue', 'application/json', ''),
  fc.string({ unit: 'binary-ascii', maxLength: 12 }),
  fc.constant(marker),
);
const header = fc
  .tuple(fc.constantFrom(...headerNames), fc.constantFrom(': ', ':', ' : ', ':\t'), headerValues)
  .map(([name, colon, value]) => `${name}${colon}${value}\r\n`);

const byte = fc.integer({ min: 0, max: 255 }).map((code) => String.fromCharCode(code));
const edit = fc.record({
  // Chooses the positions where the amount begins and ends more often than others.
  at: fc.oneof(fc.nat(), fc.constantFrom(deniedBody.indexOf(marker), deniedBody.length - 1)),
  remove: fc.integer({ min: 0, max: 2 }),
  insert: fc.oneof(
    byte,
    fc.constantFrom(
      ',"amount":50',
      '"amount":50,',
      '\\u0061',
      ' ',
      '\t',
      '\0',
      '[',
      '{',
      '"',
      '\r\n',
      'e-3',
      '.0',
      '-',
      '/*',
    ),
  ),
});
type Edit = typeof edit extends fc.Arbitrary<infer Value> ? Value : never;

/** The parts of a mutated denied call; `writeMutation` combines them. */
export const mutation = fc.record({
  headers: fc.array(header, { maxLength: 3 }),
  body: fc.array(edit, { maxLength: 3 }),
  head: fc.option(edit, { freq: 3, nil: undefined }),
});
export type Mutation = typeof mutation extends fc.Arbitrary<infer Value> ? Value : never;

function apply(text: string, { at, remove, insert }: Edit): string {
  const start = at % (text.length + 1);
  return text.slice(0, start) + insert + text.slice(start + remove);
}

/**
 * Builds the denied call with these changes, followed by bytes that complete a head or body that
 * was cut short.
 */
export function writeMutation(place: Place, { headers, body, head }: Mutation): Buffer {
  const { authority, path } = place;
  const bytes = body.reduce(apply, deniedBody);
  const lines = `POST http://${authority}${path} HTTP/1.1\r\nHost: ${authority}\r\nContent-Type: application/json\r\n`;
  const whole = `${lines}Content-Length: ${bytes.length}\r\n${headers.join('')}\r\n`;
  const start = head === undefined ? whole : apply(whole, head);
  const filler = `X: ${'a'.repeat(4_000)}`;
  const last = `\r\n\r\nTRACE http://${authority}/ HTTP/1.1\r\nHost: ${authority}\r\n${filler}\r\n\r\n`;
  return Buffer.from(start + bytes + last, 'latin1');
}

/**
 * Returns every amount that some parser might find in the received bytes, whatever number format
 * the parser accepts.
 */
export function amountsIn(arrived: string): number[] {
  const plain = arrived.replaceAll(/\\u00([0-9a-f]{2})/gi, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
  return [...plain.matchAll(/amount[^0-9]{0,8}?([-+]?[0-9][-+0-9.e_]*)/gi)].flatMap(
    ([, text = '']) =>
      [Number(text), Number.parseInt(text, 10), Number.parseFloat(text)].filter(
        (amount) => !Number.isNaN(amount),
      ),
  );
}
