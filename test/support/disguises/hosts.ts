import type { Place } from './place.ts';

/** A spelling of a denied call's authority that replaces `host:port`, and the expected result. */
export type Spelling = readonly [name: string, write: (port: number) => string, becomes: string];

const host = (name: string, text: string, becomes: string): Spelling => [
  name,
  (port) => `${text}:${port}`,
  becomes,
];

/**
 * Spellings that some parser resolves to the bound host, or that make a parser recognise another
 * host.
 */
export const spellings: readonly Spelling[] = [
  host('a short IPv4 address', '127.1', 'same'),
  host('an IPv4 address of three parts', '127.0.1', 'same'),
  host('hexadecimal parts', '0x7f.0.0.0x1', 'same'),
  host('one hexadecimal number', '0x7f000001', 'same'),
  host('one decimal number', '2130706433', 'same'),
  host('octal parts', '0177.0.0.01', 'same'),
  host('one octal number', '017700000001', 'same'),
  host('leading zeros', '127.000.000.001', 'same'),
  host('a trailing dot', '127.0.0.1.', 'same'),
  host('two trailing dots', '127.0.0.1..', 'invalid'),
  host('an inner empty part', '127..0.1', 'invalid'),
  host('a part too large', '127.0.0.257', 'invalid'),
  host('an overflowing number', '6425673729', 'invalid'),
  host('an IPv4-mapped address', '[::ffff:127.0.0.1]', 'same'),
  host('an IPv4-mapped address in hex', '[::ffff:7f00:1]', 'same'),
  host('an IPv4-mapped address in full', '[0000:0:0:0:0:FFFF:7F00:0001]', 'same'),
  host('an IPv4-compatible address', '[::127.0.0.1]', 'other'),
  host('an IPv4-translated address', '[::ffff:0:127.0.0.1]', 'other'),
  host('a NAT64 address', '[64:ff9b::7f00:1]', 'other'),
  host('a 6to4 address', '[2002:7f00:1::]', 'other'),
  host('the IPv6 loopback', '[::1]', 'other'),
  host('a zone id', '[::1%25lo]', 'invalid'),
  host('a bare zone id', '[fe80::1%lo]', 'invalid'),
  host('a mapped address with a zone id', '[::ffff:127.0.0.1%25lo]', 'invalid'),
  host('IPv4 in brackets', '[127.0.0.1]', 'invalid'),
  host('a bracket that is not closed', '[::ffff:127.0.0.1', 'invalid'),
  host('IPv6 without brackets', '::ffff:127.0.0.1', 'invalid'),
  host('a future address', '[v1.127.0.0.1]', 'invalid'),
  host('percent-encoded digits', '%31%32%37.0.0.1', 'invalid'),
  host('percent-encoded dots', '127%2e0%2e0%2e1', 'invalid'),
  host('a percent-encoded NUL', '127.0.0.1%00.example', 'invalid'),
  host('full-width digits', '１２７.0.0.1', 'invalid'),
  host('circled digits', '①②⑦.0.0.1', 'invalid'),
  host('ideographic full stops', '127。0。0。1', 'invalid'),
  host('a soft hyphen', '127.0.0.1\u00ad', 'invalid'),
  host('a zero-width space', '127.0.0.\u200b1', 'invalid'),
  host('Arabic digits', '١٢٧.٠.٠.١', 'invalid'),
  host('broken punycode', 'xn--127-.0.0.1', 'invalid'),
  host('all addresses', '0.0.0.0', 'other'),
  host('zero', '0', 'other'),
  host('another loopback address', '127.0.0.2', 'other'),
  host('a name for it', 'localhost', 'other'),
  host('a name in upper case', 'LOCALHOST', 'other'),
  host('a name with a trailing dot', 'localhost.', 'other'),
  host('a name below localhost', 'api.localhost', 'other'),
  host('user information', 'user@127.0.0.1', 'invalid'),
  host('user and password', 'user:password@127.0.0.1', 'invalid'),
  host('empty user information', '@127.0.0.1', 'invalid'),
  host('the host as the user', '127.0.0.1@api.example.com', 'invalid'),
  host('a backslash before another host', 'api.example.com\\@127.0.0.1', 'invalid'),
  host('a backslash behind', '127.0.0.1\\', 'invalid'),
  host('a fragment before', 'api.example.com#@127.0.0.1', 'invalid'),
  host('a list of hosts', '127.0.0.1,api.example.com', 'invalid'),
  host('a semicolon', '127.0.0.1;', 'invalid'),
  host('an underscore in front', '_.127.0.0.1', 'invalid'),
  host('a minus sign', '-127.0.0.1', 'invalid'),
  host('quotes', '"127.0.0.1"', 'invalid'),
  ['no host', (port) => `:${port}`, 'invalid'],
  ['a port with a leading zero', (port) => `127.0.0.1:0${port}`, 'invalid'],
  ['a signed port', (port) => `127.0.0.1:+${port}`, 'invalid'],
  ['a port that wraps around', (port) => `127.0.0.1:${port + 65_536}`, 'invalid'],
  ['a hexadecimal port', (port) => `127.0.0.1:0x${port.toString(16)}`, 'invalid'],
  ['full-width digits in the port', (port) => `127.0.0.1:${wide(port)}`, 'invalid'],
  ['two ports', (port) => `127.0.0.1:80:${port}`, 'invalid'],
  ['port 0', () => '127.0.0.1:0', 'invalid'],
];

function wide(port: number): string {
  return [...String(port)].map((digit) => String.fromCharCode(0xff10 + Number(digit))).join('');
}

/** Returns the denied call to this authority, which is also the Host header. */
export function callTo(authority: string, { path, rest }: Place, form: 'absolute' | 'origin') {
  const target = form === 'absolute' ? `http://${authority}${path}` : path;
  return Buffer.from(`POST ${target} HTTP/1.1\r\nHost: ${authority}\r\n${rest}`);
}

/** Unusual targets for the denied call in absolute form. */
export const targets: readonly Spelling[] = [
  ['a scheme in upper case', (port) => `HTTP://127.0.0.1:${port}`, 'same'],
  ['https', (port) => `https://127.0.0.1:${port}`, 'invalid'],
  ['WebSocket', (port) => `ws://127.0.0.1:${port}`, 'invalid'],
  ['ftp', (port) => `ftp://127.0.0.1:${port}`, 'invalid'],
  ['file', () => 'file://', 'invalid'],
  ['no scheme', (port) => `//127.0.0.1:${port}`, 'invalid'],
  ['one slash', (port) => `http:/127.0.0.1:${port}`, 'invalid'],
  ['three slashes', (port) => `http:///127.0.0.1:${port}`, 'invalid'],
  ['no slashes', (port) => `http:127.0.0.1:${port}`, 'invalid'],
  ['backslashes', (port) => `http:\\\\127.0.0.1:${port}`, 'invalid'],
  ['a view-source scheme', (port) => `view-source:http://127.0.0.1:${port}`, 'invalid'],
  ['a url prefix', (port) => `url:http://127.0.0.1:${port}`, 'invalid'],
  ['origin form', () => '', 'invalid'],
];
