import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { readIssuers } from '../../../control-plane/platform/config/issuer-settings.ts';
import { SettingsError } from '../../../shared/base/settings.ts';

const folder = fs.mkdtempSync(join(tmpdir(), 'issuers-'));
afterAll(() => fs.rmSync(folder, { recursive: true }));
const file = (name: string, text: string) => {
  fs.writeFileSync(join(folder, name), text);
  return join(folder, name);
};
const read = (text: string) => readIssuers(text, (path) => fs.readFileSync(path, 'utf8'));
const issuer = 'https://issuer.example';

describe('SALLYPORT_OIDC_ISSUERS', () => {
  it('lists issuers, with their files and URLs', () => {
    const token_file = file('token', 'x');
    const token_review = { url: 'https://api.example:6443/', token_file };
    expect(read('')).toEqual([]);
    expect(read(JSON.stringify([{ issuer, token_review }]))).toEqual([
      {
        issuer,
        jwksUrl: undefined,
        jwksFile: undefined,
        caFile: undefined,
        tokenFile: undefined,
        tokenReview: { url: 'https://api.example:6443', caFile: undefined, tokenFile: token_file },
      },
    ]);
  });

  it.each([
    ['no JSON', issuer, /must be a JSON array/],
    ['an object', `{"issuer":"${issuer}"}`, /expected array/],
    ['an issuer without TLS', '[{"issuer":"http://issuer.example"}]', /entry 1 issuer: .*https:/],
    ['no issuer', '[{}]', /entry 1 issuer: /],
    ['a wildcard', '[{"issuer":"*"}]', /entry 1 issuer: /],
    ['credentials in a URL', '[{"issuer":"https://a:b@issuer.example"}]', /entry 1 issuer: /],
    ['an unknown field', `[{"issuer":"${issuer}","jwks":"x"}]`, /jwks/],
    [
      'two sources of keys',
      `[{"issuer":"${issuer}","jwks_url":"${issuer}/k","jwks_file":"/k"}]`,
      /jwks_url or jwks_file, not both/,
    ],
    ['the same issuer twice', `[{"issuer":"${issuer}"},{"issuer":"${issuer}"}]`, /listed twice/],
    [
      'a missing file',
      `[{"issuer":"${issuer}","ca_file":"/nowhere/ca"}]`,
      /\/nowhere\/ca cannot be read/,
    ],
    [
      'a review without token',
      `[{"issuer":"${issuer}","token_review":{"url":"${issuer}"}}]`,
      /token_file/,
    ],
  ])('is refused with %s, and the error names the problem', (_what, text, problem) => {
    expect(() => read(text)).toThrow(SettingsError);
    expect(() => read(text)).toThrow(/^SALLYPORT_OIDC_ISSUERS: /);
    expect(() => read(text)).toThrow(problem);
  });

  it('is refused with a CA file that contains no certificate', () => {
    for (const text of ['', 'not a certificate', '-----BEGIN CERTIFICATE-----\nAAAA\n']) {
      const setting = JSON.stringify([{ issuer, ca_file: file('ca.pem', text) }]);
      expect(() => read(setting)).toThrow(/contains no PEM certificate/);
    }
  });
});
