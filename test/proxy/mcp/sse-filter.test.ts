import { describe, expect, it } from 'vitest';
import { SseFilter } from '../../../proxy/mcp/sse-filter.ts';

const lineEnds = { LF: '\n', CRLF: '\r\n', CR: '\r' };
const events = [
  ['data: {"a":1}'],
  ['event: message', 'id: 7', 'data: {"b":', 'data: "é"}'],
  [': ping'],
  ['retry: 3', 'data: {"c":3}'],
];

/** Returns the events as a stream that uses the line ends from `ends` in turn. */
function stream(ends: readonly string[]): Buffer {
  let line = 0;
  const end = () => ends[line++ % ends.length] ?? '\n';
  return Buffer.from(
    events.map((lines) => [...lines, ''].map((text) => text + end()).join('')).join(''),
  );
}

const streams: [string, Buffer][] = [
  ...Object.entries(lineEnds).map(([name, end]): [string, Buffer] => [name, stream([end])]),
  ['LF, then CRLF in turn', stream(['\n', '\r\n'])],
  ['CRLF, then CR, then LF in turn', stream(['\r\n', '\r', '\n'])],
  ['CR, then CRLF in turn', stream(['\r', '\r\n'])],
];

/**
 * Returns how many of these bytes belong to complete events. An event ends with an empty line (WHATWG HTML,
 * section 9.2.5).
 */
function completeBytes(prefix: Buffer): number {
  const text = prefix.toString('latin1');
  let complete = 0;
  for (const { 0: line, index } of text.matchAll(/([^\r\n]*)(\r\n|\n|\r)/g)) {
    if (/^[\r\n]/.test(line)) complete = index + line.length;
  }
  return complete;
}

function passOn(pieces: readonly Buffer[], afterEach: (given: number, out: Buffer) => void) {
  const filter = new SseFilter((data) => data, 1 << 20);
  let out = Buffer.alloc(0);
  let given = 0;
  for (const piece of pieces) {
    const passed = filter.push(piece);
    if (passed === 'cut') throw new Error('the filter cut the stream');
    out = Buffer.concat([out, passed]);
    given += piece.length;
    afterEach(given, out);
  }
}

describe('an event stream', () => {
  it.each(streams)(
    'delivers each event unchanged as soon as it is complete, with line ends %s',
    (_, bytes) => {
      const singly = Array.from(bytes, (byte) => Buffer.of(byte));
      const halves = singly.map((_, at) => [bytes.subarray(0, at), bytes.subarray(at)]);
      for (const pieces of [[bytes], singly, ...halves]) {
        passOn(pieces, (given, out) => {
          const due = bytes.subarray(0, completeBytes(bytes.subarray(0, given)));
          expect(out.toString('latin1')).toBe(due.toString('latin1'));
        });
      }
    },
  );

  it.each(streams)(
    'delivers each event after a byte order mark as soon as it is complete, with line ends %s',
    (_, bytes) => {
      const marked = Buffer.concat([Buffer.from('\ufeff'), bytes]);
      const singly = Array.from(marked, (byte) => Buffer.of(byte));
      passOn(singly, (given, out) => {
        expect(countEvents(out)).toBe(countEvents(marked.subarray(3, Math.max(3, given))));
      });
    },
  );

  it('ends each event that the filter rewrites with one empty line', () => {
    const filter = new SseFilter(() => Buffer.from('{"x":1}'), 1 << 20);
    const bytes = Buffer.from('data: {"a":1}\r\n\r\ndata: {"b":1}\r\n\r\n');
    const out = Array.from(bytes, (byte) => filter.push(Buffer.of(byte)));
    expect(out.join('')).toBe('data: {"x":1}\n\ndata: {"x":1}\n\n');
  });
});

function countEvents(bytes: Buffer): number {
  return [...bytes.toString('utf8').matchAll(/([^\r\n]*)(?:\r\n|\n|\r)/g)].filter(
    ([, line]) => line === '',
  ).length;
}
