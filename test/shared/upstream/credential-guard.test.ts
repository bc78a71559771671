import { randomBytes } from 'node:crypto';
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { reflectionFilter } from '../../../shared/upstream/credential-guard.ts';
import type { ResponseFilter } from '../../../shared/upstream/response-filter.ts';

const secret = 'sk_live_4eC39HqLyjWDarjtT1zdp7dc';
const text = { 'content-type': 'text/plain' };

/**
 * Passes chunks through a filter. Returns the forwarded bytes, and whether the response was cut.
 */
function pass(filter: ResponseFilter, chunks: readonly Buffer[], headers = text) {
  expect(filter.head(200, headers)).toBe('stream');
  const passed: Buffer[] = [];
  for (const [index, chunk] of [...chunks, Buffer.alloc(0)].entries()) {
    const result = filter.chunk?.(chunk, index === chunks.length);
    if (result === 'cut') return { passed: Buffer.concat(passed), cut: true };
    if (result !== undefined) passed.push(result);
  }
  return { passed: Buffer.concat(passed), cut: false };
}

function split(bytes: Buffer, size: number): Buffer[] {
  const chunks: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += size) chunks.push(bytes.subarray(at, at + size));
  return chunks;
}

const hex = (value: string, prefix: string, width: number) =>
  [...Buffer.from(value)]
    .map((byte) => `${prefix}${byte.toString(16).padStart(width, '0')}`)
    .join('');

const entities = (value: string, spell: (code: number) => string) =>
  Array.from(value, (character) => spell(character.codePointAt(0) ?? 0)).join('');

const spellings: [string, string][] = [
  ['plain', secret],
  ['in JSON', JSON.stringify({ token: secret })],
  ['base64', Buffer.from(secret).toString('base64')],
  ['base64 with one byte before the secret', Buffer.from(`:${secret}`).toString('base64')],
  ['base64 with two bytes before the secret', Buffer.from(`a:${secret}`).toString('base64')],
  [
    'base64 of a longer text that contains the secret',
    Buffer.from(`user name:${secret}, and more`).toString('base64'),
  ],
  ['base64url', Buffer.from(`\xff\xff:${secret}`, 'latin1').toString('base64url')],
  ['every byte percent-encoded', hex(secret, '%', 2)],
  [
    'every byte percent-encoded with upper-case digits',
    hex(secret, '%', 2).toUpperCase().replaceAll('%', '%'),
  ],
  ['one byte percent-encoded', secret.replace('_', '%5F')],
  ['escaped in JSON', hex(secret, '\\u', 4)],
  ['partially escaped', secret.replaceAll('_', '\\u005f')],
  ['in hexadecimal digits', Buffer.from(secret).toString('hex')],
  ['in upper-case hexadecimal digits', Buffer.from(secret).toString('hex').toUpperCase()],
  ['as UTF-16', Buffer.from(secret, 'utf16le').toString('latin1')],
  ['as big-endian UTF-16', Buffer.from(secret, 'utf16le').swap16().toString('latin1')],
  ['as HTML entities', entities(secret, (code) => `&#${code};`)],
  ['as HTML entities with zeros', entities(secret, (code) => `&#0${code};`)],
  ['as hexadecimal HTML entities', entities(secret, (code) => `&#X${code.toString(16)};`)],
  ['in upper case', secret.toUpperCase()],
  ['in lower case', secret.toLowerCase()],
  ['in mixed case', secret.replace('sk_live', 'Sk_Live').replace('jtt1', 'JtT1')],
  ['in upper case with escapes', hex(secret.toUpperCase(), '\\U', 4)],
  ['in upper case, percent-encoded', hex(secret.toUpperCase(), '%', 2)],
  ['as \\x escapes', hex(secret, '\\x', 2)],
  ['as upper-case \\x escapes', hex(secret, '\\X', 2).toUpperCase()],
  ['one \\x escape', secret.replace('_', '\\x5F')],
  ['as \\u escapes with braces', entities(secret, (code) => `\\u{${code.toString(16)}}`)],
  ['as escapes of eight digits', hex(secret, '\\U', 8)],
  ['as octal escapes', entities(secret, (code) => `\\${code.toString(8).padStart(3, '0')}`)],
  ['escaped in JSON within JSON', hex(secret, '\\\\u', 4)],
  ['escaped as by JavaScript’s escape()', hex(secret, '%u', 4)],
  ['percent-encoded twice', hex(secret, '%25', 2)],
  ['quoted for a shell', secret.replaceAll('_', '\\_')],
  ['as a named HTML entity', secret.replaceAll('_', '&lowbar;')],
  ['one HTML entity', secret.replace('_', '&lowbar;').replaceAll('&lowbar;', '&#x5F;')],
];

describe('the credential guard', () => {
  it.each(spellings)(
    'truncates a response that contains the secret in one chunk; form of the secret: %s',
    (_what, spelled) => {
      expect(pass(reflectionFilter([secret]), [Buffer.from(`before ${spelled} after`)]).cut).toBe(
        true,
      );
    },
  );

  it.each(spellings)(
    'truncates a response whose chunks together contain the secret in the form %s',
    (_what, spelled) => {
      const bytes = Buffer.from(`before ${spelled} after`);
      for (let size = 1; size <= 20; size++) {
        const { passed, cut } = pass(reflectionFilter([secret]), split(bytes, size));
        expect(cut).toBe(true);
        // No byte of the secret was forwarded before the secret was recognised.
        expect(
          'before '.startsWith(passed.toString()) || passed.toString().startsWith('before '),
        ).toBe(true);
        expect(passed.length).toBeLessThan('before '.length + spelled.length);
      }
    },
  );

  it.each([
    ['plain', secret],
    ['inside a text', `Bearer ${secret}`],
    ['base64', Buffer.from(`x:${secret}`).toString('base64')],
    ['one of several', ['a', `b=${secret}`]],
  ])('blocks a response with the secret in a header value of the form %s', (_what, value) => {
    expect(reflectionFilter([secret]).head(200, { 'x-echo': value })).toBe('cut');
  });

  it.each([
    ['JSON with ASCII characters only', 'p\\u00e4ssw\\u00f6rd \\uD83D\\uDD11<&\\"'],
    ['HTML entities', 'pässwörd 🔑&lt;&amp;&quot;'],
    ['numeric HTML entities', 'p&#228;ssw&#xF6;rd &#128273;&LT;&#38;&#34;'],
    ['form encoding', 'p%C3%A4ssw%c3%b6rd+%F0%9F%94%91%3C%26%22'],
  ])('truncates a response that contains a non-ASCII secret encoded as %s', (_what, spelled) => {
    const bytes = Buffer.from(`<p>${spelled}</p>`);
    for (const size of [1, 2, 7, 1000]) {
      expect(pass(reflectionFilter(['pässwörd 🔑<&"']), split(bytes, size)).cut).toBe(true);
    }
  });

  it('truncates a response that contains the secret as base64 with escaped slashes and plus signs', () => {
    const odd = 'key>?~~>?~?>>>~?~~?>>>';
    const base64 = Buffer.from(odd).toString('base64');
    expect(base64).toMatch(/[+/]/);
    for (const spelled of [base64.replaceAll('/', '\\/'), encodeURIComponent(base64)]) {
      for (let size = 1; size <= 20; size++) {
        expect(pass(reflectionFilter([odd]), split(Buffer.from(spelled), size)).cut).toBe(true);
      }
    }
  });

  it('blocks a response whose header name contains the secret', () => {
    expect(reflectionFilter(['abcdefgh']).head(200, { 'x-abcdefgh': '1' })).toBe('cut');
  });

  it('truncates a response that contains any one of several secrets', () => {
    expect(pass(reflectionFilter(['first-secret', secret]), [Buffer.from(secret)]).cut).toBe(true);
    expect(
      pass(reflectionFilter(['first-secret', secret]), [Buffer.from('first-secret')]).cut,
    ).toBe(true);
  });

  it.each([
    ['gzip', gzipSync],
    ['x-gzip', gzipSync],
    ['deflate', deflateSync],
    ['br', brotliCompressSync],
    ['zstd', zstdCompressSync],
  ])(
    'blocks a response that contains the secret and has the unrequested encoding %s',
    (encoding, encode) => {
      const filter = reflectionFilter([secret]);
      expect(filter.head(200, { 'content-encoding': encoding })).toBe('buffer');
      expect(filter.whole?.(encode(Buffer.from(`x ${secret}`)))).toBe('cut');
      const harmless = encode(Buffer.from('nothing here'));
      expect(filter.whole?.(harmless)).toBe(harmless);
    },
  );

  it.each([
    ['an unknown encoding', 'compress', Buffer.from('x')],
    ['two encodings', 'gzip, br', Buffer.from('x')],
    ['bytes that are invalid in the declared encoding', 'gzip', Buffer.from('x')],
    ['a body that expands beyond the limit', 'gzip', gzipSync(Buffer.alloc(40 * 1024 * 1024))],
  ])('blocks a response that it cannot scan because of %s', (_what, encoding, bytes) => {
    const filter = reflectionFilter([secret]);
    expect(filter.head(200, { 'content-encoding': encoding })).toBe('buffer');
    expect(filter.whole?.(bytes)).toBe('cut');
  });
});

const binary = { 'content-type': 'application/octet-stream' };

describe('a compressed body without a Content-Encoding', () => {
  const packings: [string, (bytes: Buffer) => Buffer][] = [
    ['gzip', gzipSync],
    ['deflate', deflateSync],
    ['deflate at level 1', (bytes) => deflateSync(bytes, { level: 1 })],
    ['zstd', zstdCompressSync],
  ];
  const random = randomBytes(3 * 1024 * 1024);

  describe.each(packings)('of format %s', (_what, pack) => {
    it.each([text, binary])(
      'is blocked if the expanded body contains the secret; response headers: %j',
      (headers) => {
        const bytes = pack(Buffer.from(`before ${secret.toUpperCase()} after`));
        for (let size = 1; size <= bytes.length; size++) {
          const { passed, cut } = pass(reflectionFilter([secret]), split(bytes, size), headers);
          expect(cut).toBe(true);
          expect(passed.length).toBe(0);
        }
      },
    );

    it.each([text, binary])(
      'is forwarded unchanged if the expanded body does not contain the secret; response headers: %j',
      (headers) => {
        const bytes = pack(Buffer.from('nothing to see here'));
        for (let size = 1; size <= bytes.length; size++) {
          const { passed, cut } = pass(reflectionFilter([secret]), split(bytes, size), headers);
          expect(cut).toBe(false);
          expect(passed).toEqual(bytes);
        }
      },
    );

    it.each([text, binary])(
      'is blocked if it is incomplete but contains the whole secret; response headers: %j',
      (headers) => {
        const bytes = pack(Buffer.concat([Buffer.from(secret), random.subarray(0, 4000)]));
        const broken = bytes.subarray(0, bytes.length - 5);
        expect(pass(reflectionFilter([secret]), split(broken, 700), headers).cut).toBe(true);
      },
    );

    it('is blocked if it is declared as text and is too large to be expanded', () => {
      for (const large of [random, Buffer.alloc(40 * 1024 * 1024)]) {
        expect(pass(reflectionFilter([secret]), split(pack(large), 65_536)).cut).toBe(true);
      }
    });

    it('is forwarded if it is a binary download, whatever its size; only its beginning is scanned', () => {
      for (const large of [random, Buffer.alloc(40 * 1024 * 1024)]) {
        const bytes = pack(large);
        const { passed, cut } = pass(reflectionFilter([secret]), split(bytes, 65_536), binary);
        expect(cut).toBe(false);
        expect(passed.equals(bytes)).toBe(true);
        const telling = pack(Buffer.concat([Buffer.from(secret), large]));
        expect(pass(reflectionFilter([secret]), split(telling, 65_536), binary).cut).toBe(true);
      }
    });
  });

  it.each(['x', 'x^2 + y^2', '(', 'x^2 + y^2 = z^2, '.repeat(500), '\x1f', '\x1f\x8b'])(
    'is not confused with the uncompressed text %j, which begins with similar bytes and is forwarded',
    (body) => {
      for (const size of [1, 2, 3, 5000]) {
        const bytes = Buffer.from(body, 'latin1');
        const { passed, cut } = pass(reflectionFilter([secret]), split(bytes, size));
        expect(cut).toBe(false);
        expect(passed).toEqual(bytes);
      }
    },
  );
});

describe('a response without the secret', () => {
  it.each([
    '',
    secret.slice(0, -1),
    secret.slice(1),
    `${secret.slice(0, 10)}-${secret.slice(10)}`,
    '%%%',
    '\\\\\\',
    'a+b+c',
    'a&b&#1;&#x;&;&amp;&bogus;&',
    'sk_live_sk_live_',
  ])('is forwarded unchanged: %j', (body) => {
    for (const size of [1, 3, 1000]) {
      const { passed, cut } = pass(reflectionFilter([secret]), split(Buffer.from(body), size));
      expect(cut).toBe(false);
      expect(passed.toString()).toBe(body);
    }
  });

  it('is forwarded unchanged, whatever its bytes and wherever they are split', () => {
    const pieces = fc.array(
      fc.constantFrom(
        'sk_live_4e',
        'C39',
        '%5F',
        '\\u005f',
        'x',
        ' ',
        '4eC39HqLyjWDarj',
        '%',
        '\\',
        '+',
        'c2tf',
      ),
      { maxLength: 60 },
    );
    fc.assert(
      fc.property(pieces, fc.integer({ min: 1, max: 40 }), (parts, size) => {
        const body = parts.join('');
        const { passed, cut } = pass(reflectionFilter([secret]), split(Buffer.from(body), size));
        expect(cut).toBe(false);
        expect(passed.toString()).toBe(body);
      }),
      { numRuns: 500 },
    );
  });

  it('is distinguished from a response that contains the encoded secret, whatever the encoding and the chunk size', () => {
    const any = fc.string({ minLength: 4, maxLength: 30 });
    const spell = fc.constantFrom<(value: string) => string>(
      (value) => value,
      (value) => Buffer.from(value).toString('base64'),
      (value) => Buffer.from(`1${value}2`).toString('base64url'),
      encodeURIComponent,
      (value) => new URLSearchParams({ q: value }).toString(),
      (value) => JSON.stringify(value),
    );
    fc.assert(
      fc.property(
        any,
        fc.string(),
        fc.string(),
        spell,
        fc.integer({ min: 1, max: 20 }),
        (value, before, after, how, size) => {
          // The base64 form of a few bytes is too short to search for.
          if (value.trim().length < 6) return;
          const body = Buffer.from(`${before} ${how(value)} ${after}`);
          expect(pass(reflectionFilter([value]), split(body, size)).cut).toBe(true);
        },
      ),
      { numRuns: 2000 },
    );
  });

  it('is distinguished from a response that contains any spelling of the secret, wherever it is split', () => {
    const spellings = [
      (one: string) => one,
      (one: string) => one.toUpperCase(),
      (one: string) => one.toLowerCase(),
      (one: string) => hex(one, '%', 2),
      (one: string) => hex(one, '%', 2).toUpperCase(),
      (one: string) => hex(one, '\\x', 2),
      (one: string) => hex(one, '\\x', 2).toUpperCase(),
      (one: string) => JSON.stringify(one).slice(1, -1),
      (one: string) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`,
      (one: string) => `\\U${one.charCodeAt(0).toString(16).padStart(8, '0')}`,
      (one: string) => `\\u{${one.charCodeAt(0).toString(16)}}`,
      (one: string) => `&#${one.charCodeAt(0)};`,
      (one: string) => `&#X${one.charCodeAt(0).toString(16).toUpperCase()};`,
    ];
    // A literal `%`, `&`, `+` or `\\` would begin an encoded form.
    const character = fc.constantFrom(
      ...Array.from({ length: 94 }, (_, index) => String.fromCharCode(0x21 + index)).filter(
        (one) => !'%&+\\'.includes(one),
      ),
    );
    const spelled = fc.array(fc.tuple(character, fc.nat(spellings.length - 1)), {
      minLength: 8,
      maxLength: 40,
    });
    fc.assert(
      fc.property(spelled, fc.lorem(), (parts, around) => {
        const value = parts.map(([one]) => one).join('');
        const how = parts.map(([one, which]) => spellings[which]?.(one) ?? one).join('');
        const body = Buffer.from(`${around} ${how} ${around}`);
        for (let at = 1; at < body.length; at += 7) {
          const chunks = [body.subarray(0, at), body.subarray(at)];
          expect(pass(reflectionFilter([value]), chunks).cut).toBe(true);
        }
        expect(pass(reflectionFilter([value]), split(body, 1)).cut).toBe(true);
      }),
      { numRuns: 100 },
    );
  });

  it('is forwarded even if it contains a short secret in a different letter case', () => {
    expect(pass(reflectionFilter(['admin']), [Buffer.from('Admin')]).cut).toBe(false);
    expect(pass(reflectionFilter(['admin']), [Buffer.from('an admin')]).cut).toBe(true);
  });

  it('is forwarded without delay, except for bytes that may be the beginning of the secret', () => {
    const filter = reflectionFilter([secret]);
    filter.head(200, { 'content-type': 'text/event-stream' });
    const event = Buffer.from('data: {"a":1}\n\n');
    expect(filter.chunk?.(event, false)).toEqual(event);
    expect(filter.chunk?.(Buffer.from('data: sk_l'), false)).toEqual(Buffer.from('data: '));
    expect(filter.chunk?.(Buffer.from('ater\n\n'), false)).toEqual(Buffer.from('sk_later\n\n'));
  });

  it('is scanned only within its first MiB if it is binary', () => {
    const headers = { 'content-type': 'application/octet-stream' };
    const mebi = Buffer.alloc(1024 * 1024, 'x');
    expect(pass(reflectionFilter([secret]), [Buffer.from(secret), mebi], headers).cut).toBe(true);
    expect(pass(reflectionFilter([secret]), [mebi, Buffer.from(secret)], headers).cut).toBe(false);
    expect(pass(reflectionFilter([secret]), [mebi, Buffer.from(secret)]).cut).toBe(true);
  });

  it('is not scanned if no secret is given', () => {
    expect(reflectionFilter([]).head(200, text)).toBe('pass');
    expect(reflectionFilter(['']).head(200, text)).toBe('pass');
  });
});
