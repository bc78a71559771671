import { expect, it } from 'vitest';
import { normaliseHost } from '../../../control-plane/runtime/host.ts';

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
  ['[0:0:0:0:0:0:0:1]', '[::1]'],
  ['my_service.ns.svc', 'my_service.ns.svc'],
])('%s is %s', (given, normal) => {
  expect(normaliseHost(given)).toBe(normal);
  expect(normaliseHost(normal)).toBe(normal);
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
  'api.example.com:x',
  `${'a'.repeat(64)}.example`,
  `${'a.'.repeat(130)}example`,
  '.',
])('%j is not one host', (given) => {
  expect(normaliseHost(given)).toBeUndefined();
});
