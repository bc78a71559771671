import { expect, it } from 'vitest';
import { parseDevKeys } from '../../../../control-plane/platform/access/dev-keys.ts';

const parse = (devKeys: string, production = false) => parseDevKeys({ devKeys, production });

it('reads development keys with tenant, role, scope and principal', () => {
  expect(parse('apk_one1=acme:owner:tenant:Alice Ng, apk_two2=acme:gateway:gateway')).toEqual([
    { key: 'apk_one1', tenantId: 'acme', role: 'owner', scope: 'tenant', principal: 'Alice Ng' },
    { key: 'apk_two2', tenantId: 'acme', role: 'gateway', scope: 'gateway', principal: 'gateway' },
  ]);
  expect(parse('')).toEqual([]);
  expect(parse(' , ')).toEqual([]);
});

it.each([
  ['without a key', '=acme:owner:tenant', 'a key is apk_'],
  ['whose key has an unknown prefix', 'key_12345=acme:owner:tenant', 'a key is apk_'],
  ['without a role', 'apk_one1=acme', 'the role is one of owner'],
  ['with an unknown role', 'apk_one1=acme:root:tenant', 'the role is one of owner'],
  ['with an unknown scope', 'apk_one1=acme:owner:world', 'the scope is tenant or gateway'],
  ['with an empty tenant', 'apk_one1=:owner:tenant', 'the tenant is'],
  ['with too many parts', 'apk_one1=acme:owner:tenant:a:b', 'the principal'],
  ['with an empty principal', 'apk_one1=acme:owner:tenant:', 'the principal'],
  [
    'with a principal reserved for sidecars',
    'apk_one1=acme:owner:tenant:sidecar:1',
    'the principal',
  ],
])(
  'refuses a development key entry %s, without repeating the key in the error',
  (_what, entry, message) => {
    expect(() => parse(`apk_good=acme:owner:tenant,${entry}`)).toThrow(message);
    expect(() => parse(`apk_good=acme:owner:tenant,${entry}`)).toThrow('entry 2');
    expect(() => parse(entry)).not.toThrow('apk_one1');
  },
);

it('refuses the same development key twice', () => {
  expect(() => parse('apk_one1=a:owner:tenant,apk_one1=b:owner:tenant')).toThrow('twice');
});

it('refuses any development key in production', () => {
  expect(() => parse('apk_one1=acme:owner:tenant', true)).toThrow('NODE_ENV is production');
  expect(parse('', true)).toEqual([]);
});
