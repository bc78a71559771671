import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { inboundHeaders, outboundHeaders, withHeader } from '../../../shared/upstream/headers.ts';

describe('a header sent to the upstream', () => {
  it.each([
    'Connection',
    'KEEP-ALIVE',
    'Proxy-Authorization',
    'proxy-connection',
    'Proxy-Anything',
    'TE',
    'Trailer',
    'Transfer-Encoding',
    'Upgrade',
    'HTTP2-Settings',
    'Host',
    'Content-Length',
    'Expect',
    'Action-Passport',
    'ACTION-GOAL',
    'action-idempotency-key',
    'Sallyport-Decision',
    'sallyport-x',
  ])('is removed if its name is %s', (name) => {
    expect(outboundHeaders([name, 'x', 'Accept', 'y'])).toEqual(['Accept', 'y']);
  });

  it('is removed if the Connection header lists its name, in any spelling', () => {
    const raw = [
      'X-A',
      '1',
      'connection',
      'close, x-A ,',
      'Connection',
      'X-B',
      'x-b',
      '2',
      'X-C',
      '3',
    ];
    expect(outboundHeaders(raw)).toEqual(['X-C', '3']);
  });

  it('is kept if it describes the body, even if the Connection header lists its name', () => {
    const raw = [
      'Connection',
      'content-type, content-encoding',
      'Content-Type',
      'a/b',
      'Content-Encoding',
      'gzip',
    ];
    expect(outboundHeaders(raw)).toEqual(raw.slice(2));
  });

  it('keeps its original position, case and number of occurrences if it is not removed', () => {
    const raw = ['X-B', '1', 'Cookie', 'a=1', 'x-b', '2', 'cookie', 'b=2'];
    expect(outboundHeaders(raw)).toEqual(raw);
  });
});

describe('a header returned to the agent', () => {
  it.each([
    'Alt-Svc',
    'SALLYPORT-Decision',
    'Connection',
    'Transfer-Encoding',
    'Trailer',
    'Proxy-Authenticate',
    'Keep-Alive',
    'Upgrade',
  ])('is removed if its name is %s', (name) =>
    expect(inboundHeaders([name, 'x', 'Date', 'y'], true)).toEqual(['Date', 'y']),
  );

  it('is removed if it is a Content-Length that does not match the length of the body', () => {
    expect(inboundHeaders(['Content-Length', '1'], true)).toEqual(['Content-Length', '1']);
    expect(inboundHeaders(['Content-Length', '1'], false)).toEqual([]);
  });
});

it('for any headers, exactly the hop-by-hop headers are removed', () => {
  const name = fc.constantFrom(
    'A',
    'b',
    'Connection',
    'TE',
    'Sallyport-X',
    'Host',
    'Accept',
    'x-named',
  );
  const value = fc.constantFrom('close', 'x-named', 'B, accept', '', 'v');
  fc.assert(
    fc.property(fc.array(fc.tuple(name, value)), (pairs) => {
      const out = outboundHeaders(pairs.flat());
      const named = pairs
        .filter(([key]) => key === 'Connection')
        .flatMap(([, list]) => list.toLowerCase().split(/\s*,\s*/));
      const expected = pairs.filter(
        ([key]) =>
          !['Connection', 'TE', 'Sallyport-X', 'Host'].includes(key) &&
          !named.includes(key.toLowerCase()),
      );
      expect(out).toEqual(expected.flat());
      expect(outboundHeaders(out)).toEqual(out);
    }),
  );
});

it('withHeader replaces every header that has the given name', () => {
  expect(withHeader(['A', '1', 'b', '2', 'a', '3'], 'a', '4')).toEqual(['b', '2', 'a', '4']);
});
