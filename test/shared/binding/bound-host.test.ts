import { expect, it } from 'vitest';
import { boundHost } from '../../../shared/binding/match.ts';

it.each([
  ['api.example.com', 'api.example.com'],
  ['API.Example.COM', 'api.example.com'],
  ['api.example.com.', 'api.example.com'],
  ['api.example.com:443', 'api.example.com'],
  ['api.example.com:80', 'api.example.com'],
  ['api.example.com:8443', 'api.example.com:8443'],
  ['bücher.example', 'xn--bcher-kva.example'],
  ['localhost:3000', 'localhost:3000'],
  ['127.1', '127.0.0.1'],
  ['0x7f.0.0.1', '127.0.0.1'],
  ['[::1]:8080', '[::1]:8080'],
  ['[::ffff:127.0.0.1]:8080', '127.0.0.1:8080'],
  ['１２７.0.0.1', '127.0.0.1'],
  ['[0:0:0:0:0:0:0:1]', '[::1]'],
  ['my_service.ns.svc', 'my_service.ns.svc'],
])('the bound host %s is normalised to %s', (given, normal) => {
  expect(boundHost(given)).toBe(normal);
  expect(boundHost(normal)).toBe(normal);
});

it.each([
  '',
  ' ',
  '*',
  '*.example.com',
  'a b',
  'http://api.example.com',
  'api.example.com/path',
  'user@api.example.com',
  'api.example.com#x',
  'api.example.com?x',
  'api.example.com\\x',
  'a%2eb',
  'api..example.com',
  '-a.example',
  '::1',
  'api.example.com:99999',
  'api.example.com:08443',
  'example.1',
  'api.example.com..',
  'api.example.com:x',
  `${'a'.repeat(64)}.example`,
  `${'a.'.repeat(130)}example`,
  '.',
])('the text %j is refused because it does not name exactly one host', (given) => {
  expect(boundHost(given)).toBeUndefined();
});
