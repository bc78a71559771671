import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { rootCertificates } from 'node:tls';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { javaTrustStore } from '../../../shared/x509/java-trust-store.ts';
import { findProgram } from '../../support/programs/programs.ts';
import { Cleanup, temporaryFolder, testAuthority } from '../../support/sidecar/proxy.ts';

const run = promisify(execFile);
const cleanup = new Cleanup();
let keytool: string;
beforeAll(async () => {
  keytool = await findProgram(['keytool'], 'default-jdk-headless');
});
afterAll(() => cleanup.run());

it.each([
  ['with any password', ['-storepass', 'changeit']],
  ['without a password', []],
])('Java trusts every certificate of the store, opened %s', async (_, password) => {
  const store = join(temporaryFolder(cleanup), 'truststore.p12');
  const { certPem } = testAuthority(cleanup);
  writeFileSync(store, javaTrustStore([certPem, ...rootCertificates].join('\n')));
  const args = ['-list', '-keystore', store, '-storetype', 'PKCS12', ...password];
  const child = run(keytool, args, { maxBuffer: 4 * 1024 ** 2 });
  // If no password is given, `keytool` asks for one. An empty line means that there is none.
  child.child.stdin?.end('\n');
  const { stdout } = await child;
  const entries = stdout.match(/trustedCertEntry/g) ?? [];
  expect(entries).toHaveLength(rootCertificates.length + 1);
});
