import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { trustBundle } from '../../../proxy/tls/authority-file.ts';
import { writeTrustFiles } from '../../../proxy/tls/trust-files.ts';
import { Cleanup, temporaryFolder, testAuthority } from '../../support/sidecar/proxy.ts';

let cleanup: Cleanup;
let folder: string;
beforeEach(() => {
  cleanup = new Cleanup();
  folder = temporaryFolder(cleanup);
});
afterEach(() => cleanup.run());

it('the trust files contain the public authorities and the sidecar’s own authority, and every user can read them', () => {
  const { certPem } = testAuthority(cleanup);
  writeTrustFiles(folder, trustBundle(certPem));
  expect(readdirSync(folder).toSorted()).toEqual(['ca-bundle.pem', 'truststore.p12']);
  const text = readFileSync(join(folder, 'ca-bundle.pem'), 'utf8');
  expect(text.startsWith(certPem)).toBe(true);
  expect(text.match(/BEGIN CERTIFICATE/g)?.length).toBeGreaterThan(50);
  for (const name of readdirSync(folder)) {
    expect(statSync(join(folder, name)).mode & 0o777).toBe(0o644);
  }
});

it('the trust files of an earlier start are replaced', () => {
  writeTrustFiles(folder, trustBundle(testAuthority(cleanup).certPem));
  const { certPem } = testAuthority(cleanup);
  writeTrustFiles(folder, trustBundle(certPem));
  expect(readFileSync(join(folder, 'ca-bundle.pem'), 'utf8').startsWith(certPem)).toBe(true);
  expect(readdirSync(folder)).toHaveLength(2);
});

it('the error for a missing directory names the directory and states what to do', () => {
  expect(() => writeTrustFiles(join(folder, 'missing'), '')).toThrow(
    /SALLYPORT_TRUST_BUNDLE_DIRECTORY: cannot write to .*missing\. Name an existing directory/,
  );
});
