import { describe, expect, it } from 'vitest';
import type { Binding } from '../../../shared/binding/binding.ts';
import { compileBindings, overlaps } from '../../../shared/binding/match.ts';
import { splitPath } from '../../../shared/binding/path.ts';

const host = 'api.example.com';

function http(path: string, more: Partial<Binding> = {}): Binding {
  return { name: path, protocol: 'http', host, tool: 'a.b', method: 'GET', path, ...more };
}

function found(bindings: readonly Binding[], method: string, path: string): string | undefined {
  const call = compileBindings(bindings).forHost(host, 443)?.callAt(method, splitPath(path));
  return call?.binding.name;
}

describe('a bound host', () => {
  it('is found on the default ports of HTTP and HTTPS and on no other port', () => {
    const index = compileBindings([http('/a')]);
    expect(index.forHost(host, 443)).toBeDefined();
    expect(index.forHost(host, 80)).toBeDefined();
    expect(index.forHost(host, 8443)).toBeUndefined();
    expect(index.forHost('example.com', 443)).toBeUndefined();
    expect(index.forHost('x.api.example.com', 443)).toBeUndefined();
  });

  it('can have a non-default port and can be an IP literal', () => {
    const index = compileBindings([
      http('/a', { host: 'h:8080' }),
      http('/b', { host: '[::1]:9000' }),
      http('/c', { host: '[2001:db8::1]' }),
      http('/d', { host: '127.0.0.1:3000' }),
    ]);
    expect(index.forHost('h', 8080)).toBeDefined();
    expect(index.forHost('h', 80)).toBeUndefined();
    expect(index.forHost('::1', 9000)).toBeDefined();
    expect(index.forHost('2001:db8::1', 443)).toBeDefined();
    expect(index.forHost('127.0.0.1', 3000)).toBeDefined();
    expect(index.forHost('127.0.0.1', 3001)).toBeUndefined();
  });

  it('denies every call if its only binding is malformed', () => {
    const bound = compileBindings([http('no slash')]).forHost(host, 443);
    expect(bound).toBeDefined();
    expect(bound?.callAt('GET', ['no slash'])).toBeUndefined();
    expect(bound?.passthrough).toBeUndefined();
  });

  it('has no passthrough if it also has bindings for calls', () => {
    const all: Binding = { name: 'all', protocol: 'passthrough', host };
    expect(compileBindings([all]).forHost(host, 443)?.passthrough).toBe(all);
    expect(compileBindings([all, http('/a')]).forHost(host, 443)?.passthrough).toBeUndefined();
  });

  it('has each MCP endpoint at exactly one path and query', () => {
    const mcp: Binding = { name: 'm', protocol: 'mcp', host };
    const own: Binding = { name: 'o', protocol: 'mcp', host, path: '/own/?profile=a' };
    const bound = compileBindings([mcp, own]).forHost(host, 443);
    expect(bound?.mcpAt(['mcp'], '')).toBe(mcp);
    expect(bound?.mcpAt(['mcp'], 'x=1')).toBeUndefined();
    expect(bound?.mcpAt(['mcp', ''], '')).toBeUndefined();
    expect(bound?.mcpAt(['own', ''], 'profile=a')).toBe(own);
    expect(bound?.mcpAt(['own', ''], '')).toBeUndefined();
  });
});

describe('a call that several bindings match', () => {
  it('is assigned to the binding with more literal segments', () => {
    const bindings = [http('/a/{x}'), http('/a/b'), http('/{x}/{y}')];
    expect(found(bindings, 'GET', '/a/b')).toBe('/a/b');
    expect(found(bindings, 'GET', '/a/c')).toBe('/a/{x}');
    expect(found(bindings, 'GET', '/c/c')).toBe('/{x}/{y}');
    expect(found(bindings.toReversed(), 'GET', '/a/b')).toBe('/a/b');
    expect(found(bindings, 'POST', '/a/b')).toBeUndefined();
    expect(found(bindings, 'GET', '/a')).toBeUndefined();
  });

  it('is assigned to no binding if the two most specific bindings are equally specific', () => {
    const bindings = [http('/a/{x}'), http('/{x}/b')];
    expect(found(bindings, 'GET', '/a/b')).toBeUndefined();
    expect(found(bindings, 'GET', '/a/c')).toBe('/a/{x}');
    expect(found([...bindings, http('/a/b')], 'GET', '/a/b')).toBe('/a/b');
    expect(found([http('/a/b'), ...bindings], 'GET', '/a/b')).toBe('/a/b');
    expect(found([http('/{p}/{q}'), ...bindings], 'GET', '/a/b')).toBeUndefined();
  });
});

describe('the overlap check of bindings', () => {
  const mcp = (path: string, more: Partial<Binding> = {}): Binding => ({
    name: 'm',
    protocol: 'mcp',
    host,
    path,
    ...more,
  });

  it.each<[string, Binding, Binding, boolean]>([
    ['the same template', http('/a/{x}'), http('/a/{y}'), true],
    ['equally specific templates that match a common path', http('/a/{x}'), http('/{x}/b'), true],
    ['templates without a common path', http('/a/{x}'), http('/b/{x}'), false],
    ['two templates, one more specific than the other', http('/a/{x}'), http('/a/b'), false],
    ['templates of different lengths', http('/a/{x}'), http('/a/{x}/c'), false],
    ['different methods', http('/a'), http('/a', { method: 'POST' }), false],
    ['different hosts', http('/a'), http('/a', { host: 'other.example' }), false],
    ['different ports', http('/a'), http('/a', { host: `${host}:8080` }), false],
    [
      'a call and a passthrough on the same host',
      http('/a'),
      { name: 'p', protocol: 'passthrough', host },
      true,
    ],
    [
      'a call and a passthrough on different hosts',
      http('/a'),
      { name: 'p', protocol: 'passthrough', host: 'x' },
      false,
    ],
    ['the same MCP endpoint', mcp('/mcp'), { name: 'n', protocol: 'mcp', host }, true],
    ['MCP endpoints that differ in their query', mcp('/mcp?a=1'), mcp('/mcp?a=2'), false],
    [
      'a call whose path is that of an MCP endpoint',
      http('/mcp', { method: 'POST' }),
      mcp('/mcp'),
      true,
    ],
    [
      'a call whose path template also matches an MCP endpoint',
      http('/{x}', { method: 'POST' }),
      mcp('/mcp'),
      false,
    ],
  ])('has the expected result for two bindings: %s', (_, one, other, expected) => {
    expect(overlaps(one, other)).toBe(expected);
    expect(overlaps(other, one)).toBe(expected);
  });
});
