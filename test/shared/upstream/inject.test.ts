import { describe, expect, it } from 'vitest';
import type { CredentialInjection, HeldCredential } from '../../../shared/binding/binding.ts';
import { injectCredential } from '../../../shared/upstream/inject.ts';
import type { Outgoing } from '../../../shared/upstream/outgoing.ts';

function outgoing(path: string, headers: string[] = []): Outgoing {
  return {
    scheme: 'https',
    host: 'a.example',
    port: 443,
    method: 'GET',
    path,
    headers,
    body: null,
  };
}

function held(secret: string, inject: CredentialInjection): HeldCredential {
  return { id: 'cred_1', version: 1, secret, inject, bind: { tools: ['*'], hosts: ['a.example'] } };
}

const basicOf = (pair: string) => `Basic ${Buffer.from(pair).toString('base64')}`;

describe('injecting a credential', () => {
  it.each<[string, string, CredentialInjection, string[]]>([
    ['bearer', 's3', { in: 'bearer' }, ['authorization', 'Bearer s3']],
    [
      'bearer with a format',
      's3',
      { in: 'bearer', format: 'token {secret}' },
      ['authorization', 'token s3'],
    ],
    ['a header', 's3', { in: 'header', name: 'X-Api-Key' }, ['X-Api-Key', 's3']],
    [
      'a header with a format',
      's3',
      { in: 'header', name: 'X-Api-Key', format: 'k={secret};' },
      ['X-Api-Key', 'k=s3;'],
    ],
    [
      'basic with a user',
      's3',
      { in: 'basic', format: 'amy:{secret}' },
      ['authorization', basicOf('amy:s3')],
    ],
    ['basic with a pair', 'amy:s3', { in: 'basic' }, ['authorization', basicOf('amy:s3')]],
    ['basic with a secret only', 's3', { in: 'basic' }, ['authorization', basicOf('s3:')]],
    [
      'basic beyond ASCII',
      'pässwörd',
      { in: 'basic', format: 'amy:{secret}' },
      ['authorization', basicOf('amy:pässwörd')],
    ],
    [
      'a secret with replacement patterns of JavaScript',
      "$&$'$1",
      { in: 'bearer' },
      ['authorization', "Bearer $&$'$1"],
    ],
  ])('adds the secret as %s', (_what, secret, inject, expected) => {
    expect(
      injectCredential(outgoing('/', ['Accept', '*/*']), held(secret, inject)).headers,
    ).toEqual(['Accept', '*/*', ...expected]);
  });

  it('removes all values that the agent sent for the same header or parameter', () => {
    const headers = ['AUTHORIZATION', 'Bearer mine', 'X', '1', 'authorization', 'Basic x'];
    expect(injectCredential(outgoing('/', headers), held('s3', { in: 'bearer' })).headers).toEqual([
      'X',
      '1',
      'authorization',
      'Bearer s3',
    ]);
  });

  it.each([
    ['/a', '/a?key=s%263'],
    ['/a?', '/a?key=s%263'],
    ['/a?b=1', '/a?b=1&key=s%263'],
    ['/a?key=mine&b=1&key=again', '/a?b=1&key=s%263'],
    ['/a?k%65y=mine&b=1', '/a?b=1&key=s%263'],
    ['/a?KEY=mine&kEy=mine', '/a?key=s%263'],
    ['/a?%4bEY=mine', '/a?key=s%263'],
    ['/a?key', '/a?key=s%263'],
    ['/a?b=x?key=y', '/a?b=x?key=y&key=s%263'],
    ['/a?%ff=1', '/a?%ff=1&key=s%263'],
  ])('adds a query parameter: the path %s becomes %s', (path, expected) => {
    expect(injectCredential(outgoing(path), held('s&3', { in: 'query', name: 'key' })).path).toBe(
      expected,
    );
  });

  it('removes the Range header, because the agent could combine partial responses into the secret', () => {
    const headers = ['Range', 'bytes=0-9', 'X', '1'];
    expect(
      injectCredential(outgoing('/', headers), held('s', { in: 'header', name: 'K' })).headers,
    ).toEqual(['X', '1', 'K', 's']);
  });

  it('does not modify the given request object', () => {
    const given = outgoing('/a?b=1', ['authorization', 'x']);
    injectCredential(given, held('s', { in: 'bearer' }));
    injectCredential(given, held('s', { in: 'query', name: 'k' }));
    expect(given).toEqual(outgoing('/a?b=1', ['authorization', 'x']));
  });
});

describe('injecting an invalid credential', () => {
  const everywhere: CredentialInjection[] = [
    { in: 'bearer' },
    { in: 'header', name: 'X-K' },
    { in: 'basic' },
    { in: 'query', name: 'k' },
  ];

  it.each(['a\r\nX: y', 'a\nb', 'a\rb', 'a\0b', 'a\u0085b', '', 'a\ud800'])(
    'refuses the secret %j, which is empty, malformed or contains control characters',
    (secret) => {
      for (const inject of everywhere) {
        expect(() => injectCredential(outgoing('/'), held(secret, inject))).toThrow(
          /cannot be injected/,
        );
      }
    },
  );

  it.each([
    '',
    'a b',
    'a:b',
    'Host',
    'content-length',
    'Transfer-Encoding',
    'Connection',
    'sallyport-x',
    'Proxy-Authorization',
    'ü',
  ])('refuses the header name %j', (name) =>
    expect(() => injectCredential(outgoing('/'), held('s', { in: 'header', name }))).toThrow(
      /cannot be injected/,
    ),
  );

  it('refuses a format with a line break, a query or header without a name, and a non-ASCII secret in a header', () => {
    for (const [secret, inject] of [
      ['s', { in: 'bearer', format: 'a\r\n{secret}' }],
      ['s', { in: 'query' }],
      ['s', { in: 'header' }],
      ['sé', { in: 'header', name: 'X-K' }],
    ] as const) {
      expect(() => injectCredential(outgoing('/'), held(secret, inject))).toThrow(
        /cannot be injected/,
      );
    }
  });

  it('refuses an invalid secret with a message that does not contain the secret', () => {
    expect(() => injectCredential(outgoing('/'), held('top\nsecret', { in: 'bearer' }))).toThrow(
      expect.not.objectContaining({ message: expect.stringContaining('secret\n') }),
    );
  });
});
