import { execFile } from 'node:child_process';
import fs from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { python } from '../network/namespaces.ts';
import { goProgram } from '../programs/go.ts';
import { installNode, nodeVersions } from '../programs/node-versions.ts';
import { findProgram } from '../programs/programs.ts';

const run = promisify(execFile);
const sources = resolve(import.meta.dirname, '../../e2e/transparent/clients');

/** A program of an agent that requests a URL and prints status and body. */
export interface AgentClient {
  readonly name: string;
  readonly command: (url: string) => readonly string[];
  /** Variables that name the sidecar's certificates. */
  readonly env: Readonly<Record<string, string>>;
}

/**
 * Prepares clients in five languages in `folder`, which every user can read. They trust the
 * certificates of `caPath` or, in Java, the sidecar's certificate, and get no proxy variable.
 */
export async function prepareClients(
  folder: string,
  { caPath, certificate }: { readonly caPath: string; readonly certificate: string },
): Promise<AgentClient[]> {
  const copy = (path: string, name: string) => {
    const target = join(folder, name);
    fs.copyFileSync(path, target);
    fs.chmodSync(target, 0o755);
    return target;
  };
  const source = (name: string) => copy(join(sources, name), name);
  await findProgram(['curl']);
  const [node18] = nodeVersions.filter(({ name }) => name === 'Node 18');
  if (node18 === undefined) throw new Error('Node 18 is not in the list');
  const node = copy((await installNode(node18)).node, 'node');
  const go = copy(await goProgram(join(sources, 'fetch.go')), 'fetch-go');
  const trustStore = join(folder, 'trust.p12');
  await makeTrustStore(certificate, trustStore);
  const java = await javaClasses(folder);
  const store = [
    `-Djavax.net.ssl.trustStore=${trustStore}`,
    '-Djavax.net.ssl.trustStorePassword=changeit',
  ];
  const [pythonFile, nodeFile] = [source('fetch.py'), source('fetch.mjs')];
  const curl = ['curl', '-sS', '--max-time', '60', '-w', ' %{http_code}'];
  return [
    { name: 'curl', command: (url) => [...curl, url], env: { CURL_CA_BUNDLE: caPath } },
    { name: 'Python', command: (url) => [python, pythonFile, url], env: { SSL_CERT_FILE: caPath } },
    {
      name: 'Node 18',
      command: (url) => [node, nodeFile, url],
      env: { NODE_EXTRA_CA_CERTS: caPath },
    },
    { name: 'Go', command: (url) => [go, url], env: { SSL_CERT_FILE: caPath } },
    { name: 'Java', command: (url) => [java, ...store, '-cp', folder, 'Fetch', url], env: {} },
  ];
}

async function javaClasses(folder: string): Promise<string> {
  const javac = await findProgram(['javac'], 'default-jdk-headless');
  await run(javac, ['-d', folder, join(sources, 'Fetch.java')]);
  return findProgram(['java'], 'default-jdk-headless');
}

/** Java reads no PEM bundles, so its own tool imports the sidecar's certificate. */
async function makeTrustStore(certificate: string, target: string): Promise<void> {
  const file = `${target}.pem`;
  fs.writeFileSync(file, certificate);
  const keytool = await findProgram(['keytool'], 'default-jdk-headless');
  const store = ['-keystore', target, '-storetype', 'PKCS12', '-storepass', 'changeit'];
  await run(keytool, ['-importcert', '-noprompt', '-alias', 'sallyport', '-file', file, ...store]);
  fs.chmodSync(target, 0o644);
}
