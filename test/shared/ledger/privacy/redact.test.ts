import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../../shared/base/json.ts';
import { redactArguments, redactText } from '../../../../shared/ledger/privacy/redact.ts';

const redact = (args: JsonObject, fields: readonly string[] = []) => redactArguments(args, fields);

describe('redacting a text', () => {
  it.each([
    ['dana.smith+x@customer.example', '[redacted:email]'],
    ['jürgen@bücher.example', '[redacted:email]'],
    ['4111 1111 1111 1111', '[redacted:card]'],
    ['5500-0000-0000-0004', '[redacted:card]'],
    ['378282246310005', '[redacted:card]'],
    ['DE89 3704 0044 0532 0130 00', '[redacted:account]'],
    ['GB29NWBK60161331926819', '[redacted:account]'],
    ['+49 170 1234567', '[redacted:phone]'],
    ['apk_0123456789ABCDEFGHIJabcdefghij4VNZVQ', '[redacted:secret]'],
    ['AKIAIOSFODNN7EXAMPLE', '[redacted:secret]'],
    ['ghp_16C7e42F292c6912E7710c838347Ae178B4a', '[redacted:secret]'],
    ['eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl', '[redacted:secret]'],
    ['Bearer abc123def', '[redacted:secret]'],
    ['wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY', '[redacted:secret]'],
    ['password=hunter2', '[redacted:secret]'],
    ['postgres://user:pa55@db.example/x', 'postgres://[redacted:secret]db.example/x'],
    ['-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----', '[redacted:secret]'],
    ['-----BEGIN RSA PRIVATE KEY-----\nMIIB, and cut off', '[redacted:secret]'],
  ])('replaces the sensitive part of %j, wherever this part is in the text', (text, left) => {
    expect(redactText(text)).toBe(left);
    expect(redactText(`(${text})`)).toContain(left.split('[')[0]);
    expect(redactText(`see ${text}`)).toBe(`see ${left}`);
  });

  it.each([
    'Refund the order of last week, 12 EUR.',
    'customer:12',
    '2026-07-01T09:00:00.000Z',
    '0198c6a8-a6f0-7cc3-a4f2-b7d7f4f0a1b2',
    '4111 1111 1111 1112',
    'internationalisation-of-everything',
  ])('leaves the text %j unchanged', (text) => {
    expect(redactText(text)).toBe(text);
  });

  it('takes a bounded time for any text', () => {
    const seeds = ['a@', '1 ', '-----BEGIN PRIVATE KEY-----', 'AB12 ', 'token=', 'x.', '+1 '];
    for (const seed of seeds) {
      const started = process.cpuUsage();
      redact({ text: seed.repeat(20_000) });
      const { user, system } = process.cpuUsage(started);
      expect((user + system) / 1000).toBeLessThan(1_000);
    }
  });
});

describe('redacting arguments', () => {
  it('removes the values of fields whose names are sensitive, in any spelling', () => {
    const names = ['password', 'api_key', 'apiKey', 'X-Auth-Token', 'cardNumber', 'e-mail', 'cvv'];
    const args = Object.fromEntries(names.map((name) => [name, { deep: 'value' }]));
    expect(redact(args)).toEqual(Object.fromEntries(names.map((name) => [name, '[redacted]'])));
  });

  it('removes the values of fields that the tenant lists, by name or path, also within arrays', () => {
    const args = {
      salary: 1,
      staff: [{ name: 'Dana', grade: 4 }],
      pet: { name: 'Rex' },
      customer: { notes: 'n', id: 7 },
    };
    expect(redact(args, ['salary', 'staff.name', 'customer.notes'])).toEqual({
      salary: '[redacted]',
      staff: [{ name: '[redacted]', grade: 4 }],
      pet: { name: 'Rex' },
      customer: { notes: '[redacted]', id: 7 },
    });
  });

  it('removes a card number that is a JSON number, and a secret in a member name', () => {
    expect(redact({ n: 4111111111111111, amount: 12 })).toEqual({
      n: '[redacted:card]',
      amount: 12,
    });
    expect(redact({ 'dana@customer.example': 1 })).toEqual({ '[redacted:email]': 1 });
  });

  it('removes a secret that crosses the position at which the text is truncated', () => {
    const text = `${'word '.repeat(199)}x ghp_16C7e42F292c6912E7710c838347Ae178B4a`;
    expect(JSON.stringify(redact({ text }))).not.toContain('ghp_');
  });

  it('returns a bounded result for any arguments', () => {
    const deep = JSON.parse(`${'{"a":['.repeat(500)}1${']}'.repeat(500)}`) as JsonObject;
    expect(JSON.stringify(redact(deep))).toContain('[cut]');
    const wide = Object.fromEntries(Array.from({ length: 5_000 }, (_, n) => [`f${n}`, 'x']));
    expect(Object.keys(redact(wide))).toHaveLength(1_000);
    expect(JSON.stringify(redact({ text: 'y '.repeat(100_000) })).length).toBeLessThan(1_100);
  });

  it('removes a secret or an address that crosses the end of the scanned part', () => {
    const key = `-----BEGIN PRIVATE KEY-----${'A'.repeat(3_900)}-----END PRIVATE KEY-----`;
    for (const secret of ['sk_live_51H8abcdEFGH', 'maria.lopez@example.com']) {
      for (let shift = 0; shift < secret.length; shift++) {
        const text = `${key}${' '.repeat(47 - shift)}${secret} and more`;
        const shown = JSON.stringify(redact({ note: text }));
        expect(shown).not.toContain('sk_');
        expect(shown).not.toContain('maria');
      }
    }
  });

  it('removes every e-mail address in any object', () => {
    const address = 'dana@customer.example';
    fc.assert(
      fc.property(
        fc.object({ maxDepth: 4, withNullPrototype: false }),
        fc.string(),
        (any, around) => {
          const args = JSON.parse(
            JSON.stringify({ any, list: [`${around} ${address} ${around}`] }),
          );
          expect(JSON.stringify(redact(args))).not.toContain(address);
        },
      ),
    );
  });
});
