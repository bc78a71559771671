import { describe, expect, it } from 'vitest';
import {
  ledgerOriginSetting,
  readWitnesses,
} from '../../../../control-plane/platform/config/witness-settings.ts';
import { SettingsError } from '../../../../shared/base/settings.ts';
import { generateSigningKey } from '../../../../shared/crypto/signing-key.ts';
import { vkeyOf } from '../../../../shared/ledger/note.ts';

const { publicJwk } = generateSigningKey();
const one = vkeyOf('one.example', publicJwk, 'cosignature');
const two = vkeyOf('two.example', publicJwk, 'cosignature');

describe('SALLYPORT_WITNESSES', () => {
  it('lists witnesses, each with its verifier key and URL', () => {
    const witnesses = readWitnesses(`${one} https://one.example/w/,\n ${two} http://10.0.0.1:8080`);
    expect(witnesses.map(({ verifier, url }) => [verifier.name, url])).toEqual([
      ['one.example', 'https://one.example/w'],
      ['two.example', 'http://10.0.0.1:8080'],
    ]);
    expect(readWitnesses('')).toEqual([]);
  });

  it.each([
    ['no URL', one],
    ['a URL with another scheme', `${one} file:///etc`],
    ['a URL with a query', `${one} https://one.example/?a=b`],
    ['text after the URL', `${one} https://one.example more`],
    ['a malformed key', `${one.slice(0, -1)} https://one.example`],
    ['a key of the type for logs', `${vkeyOf('one.example', publicJwk)} https://one.example`],
    ['the same witness twice', `${one} https://one.example,${one} https://two.example`],
  ])('is refused at start with %s', (_what, text) => {
    expect(() => readWitnesses(text)).toThrow(SettingsError);
  });
});

describe('SALLYPORT_LEDGER_ORIGIN', () => {
  it.each(['gateway.example', 'gateway.example/sallyport', 'host:8080', 'sallyport'])(
    'accepts %s',
    (origin) => {
      expect(ledgerOriginSetting.safeParse(origin).success).toBe(true);
    },
  );

  it.each(['', 'https://gateway.example', 'a b', 'a+b', 'gateway.example/', 'a\nb', 'ä.example'])(
    'refuses %j',
    (origin) => {
      expect(ledgerOriginSetting.safeParse(origin).success).toBe(false);
    },
  );
});
