import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  formatAuthority,
  isAddress,
  normaliseHost,
  splitAuthority,
} from '../../../shared/base/host.ts';

describe('normaliseHost', () => {
  it.each([
    ['Example.COM', 'example.com'],
    ['example.com.', 'example.com'],
    ['bücher.example', 'xn--bcher-kva.example'],
    ['XN--BCHER-KVA.example', 'xn--bcher-kva.example'],
    ['my_service', 'my_service'],
    ['1.2.3.4', '1.2.3.4'],
    ['0x7f.1', '127.0.0.1'],
    ['017700000001', '127.0.0.1'],
    ['2130706433', '127.0.0.1'],
    ['127.1', '127.0.0.1'],
    ['127.0.0.1.', '127.0.0.1'],
    ['１２７.0.0.1', '127.0.0.1'],
    ['169。254。169。254', '169.254.169.254'],
    ['[::1]', '::1'],
    ['::1', '::1'],
    ['[2001:DB8:0:0:0:0:0:1]', '2001:db8::1'],
    ['[::ffff:127.0.0.1]', '127.0.0.1'],
    ['::ffff:a9fe:a9fe', '169.254.169.254'],
  ])('normalises the host %s to %s', (input, expected) => {
    expect(normaliseHost(input)).toBe(expected);
  });

  it.each([
    '',
    '.',
    'example..com',
    'example.com..',
    '.example.com',
    'exa mple.com',
    'example.com\0',
    'ex%61mple.com',
    'user@example.com',
    'example.com/path',
    'example.com\\@evil',
    '-a.example',
    'a-.example',
    '256.1.1.1',
    '1.2.3.4.5',
    '0x100000000',
    'example.1',
    '[::1',
    '::1]',
    '[fe80::1%eth0]',
    '[]',
    'xn--\u00a0',
    `${'a'.repeat(64)}.example`,
    `${'a.'.repeat(130)}example`,
    '*.example.com',
    'a,b',
  ])('refuses %j', (input) => {
    expect(normaliseHost(input)).toBeUndefined();
  });

  it('is idempotent', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.domain(), fc.ipV4Extended(), fc.ipV6()), (input) => {
        const host = normaliseHost(input);
        if (host !== undefined) expect(normaliseHost(host)).toBe(host);
      }),
      { numRuns: 3000 },
    );
  });

  it('agrees with the URL parser, so that connections go to the host that was checked', () => {
    fc.assert(
      fc.property(fc.oneof(fc.domain(), fc.ipV4Extended(), fc.ipV6()), (input) => {
        const host = normaliseHost(input);
        if (host === undefined) return;
        const url = new URL(`http://${formatAuthority({ host, port: 80 }, 80)}/`);
        expect(url.hostname.replace(/^\[|\]$/g, '')).toBe(host);
        expect(isAddress(host)).toBe(/^[\d.]+$|:/.test(host));
      }),
      { numRuns: 3000 },
    );
  });
});

describe('splitAuthority', () => {
  it('reads host and port', () => {
    expect(splitAuthority('A.example:8443')).toEqual({ host: 'a.example', port: 8443 });
    expect(splitAuthority('[::1]:1')).toEqual({ host: '::1', port: 1 });
    expect(splitAuthority('a.example', 443)).toEqual({ host: 'a.example', port: 443 });
  });

  it.each([
    'a.example',
    'a.example:',
    'a.example:0',
    'a.example:080',
    'a.example:65536',
    'a.example:1e3',
    'a.example:+80',
    'a.example: 80',
    'u@a.example:80',
    'a:b:80',
    '::1:80',
    ':80',
    '[::1]80',
    '[::1]:80:80',
  ])('refuses %j', (input) => {
    expect(splitAuthority(input)).toBeUndefined();
  });
});
