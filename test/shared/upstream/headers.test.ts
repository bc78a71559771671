import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { inboundHeaders, outboundHeaders, withHeader } from '../../../shared/upstream/headers.ts';

describe('what leaves', () => {
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
  ])('%s never does', (name) => {
    expect(outboundHeaders([name, 'x', 'Accept', 'y'])).toEqual(['Accept', 'y']);
  });

  it('what Connection names goes with it, however it is written', () => {
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

  it('Connection cannot take away what describes the body', () => {
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

  it('order, case and repetition of the rest are kept', () => {
    const raw = ['X-B', '1', 'Cookie', 'a=1', 'x-b', '2', 'cookie', 'b=2'];
    expect(outboundHeaders(raw)).toEqual(raw);
  });
});

describe('what comes back', () => {
  it.each([
    'Alt-Svc',
    'SALLYPORT-Decision',
    'Connection',
    'Transfer-Encoding',
    'Trailer',
    'Proxy-Authenticate',
    'Keep-Alive',
    'Upgrade',
  ])('%s never does', (name) =>
    expect(inboundHeaders([name, 'x', 'Date', 'y'], true)).toEqual(['Date', 'y']),
  );

  it('Content-Length is kept only where it is the length', () => {
    expect(inboundHeaders(['Content-Length', '1'], true)).toEqual(['Content-Length', '1']);
    expect(inboundHeaders(['Content-Length', '1'], false)).toEqual([]);
  });
});

it('no hop-by-hop header survives, and nothing else is lost, whatever the headers', () => {
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

it('withHeader replaces every one of that name', () => {
  expect(withHeader(['A', '1', 'b', '2', 'a', '3'], 'a', '4')).toEqual(['b', '2', 'a', '4']);
});
