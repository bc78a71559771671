import { resolve } from 'node:path';
import { ignoreInsecureTls, insecureTlsIgnored } from '../shared/settings.ts';
import { type Embedded, startEmbedded } from './embedded.ts';
import { stopSignal } from './stop-signal.ts';

/** `sallyport up`: everything in one process, until SIGINT or SIGTERM. */
export async function up(): Promise<number> {
  const stopped = stopSignal();
  if (ignoreInsecureTls(process.env)) process.stderr.write(`${insecureTlsIgnored}\n`);
  const embedded = await startEmbedded(process.env);
  console.log(greeting(embedded));
  await stopped;
  await embedded.close();
  return 0;
}

function greeting({ origin, ownerKey, sidecar }: Embedded): string {
  return `
Sallyport is ready.

  API      ${origin}/api
  Docs     ${origin}/api/docs
  Key      ${ownerKey}   (owner; for you, never for an agent)
  Proxy    ${sidecar.proxyUrl}
  Health   ${origin}/readyz  ${sidecar.adminUrl}/readyz

Route an agent through it:

${proxySettings(sidecar)
  .map(([name, value]) => `  export ${name}=${value}`)
  .join('\n')}
`;
}

/** The environment that sends an agent's calls through the sidecar. */
export function proxySettings({ proxyUrl, caPath }: Embedded['sidecar']): [string, string][] {
  const ca = resolve(caPath);
  return [
    ['HTTP_PROXY', proxyUrl],
    ['HTTPS_PROXY', proxyUrl],
    ['http_proxy', proxyUrl],
    ['https_proxy', proxyUrl],
    ['NODE_USE_ENV_PROXY', '1'],
    ['NODE_EXTRA_CA_CERTS', ca],
    ['SSL_CERT_FILE', ca],
    ['REQUESTS_CA_BUNDLE', ca],
    ['CURL_CA_BUNDLE', ca],
  ];
}
