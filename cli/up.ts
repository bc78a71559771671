import { fileURLToPath } from 'node:url';
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
  const run = runCommand(sidecar);
  return `
Sallyport is ready.

  API      ${origin}/api
  Docs     ${origin}/api/docs
  Key      ${ownerKey}   (owner; for you, never for an agent)
  Proxy    ${sidecar.proxyUrl}
  Health   ${origin}/readyz  ${sidecar.adminUrl}/readyz

Run an agent through it, or set up a shell for one:

  ${run} -- COMMAND
  eval "$(${run} --print)"
`;
}

/** How the agent's variables are had from anywhere on this machine. */
function runCommand({ proxyUrl, adminUrl }: Embedded['sidecar']): string {
  const cli = fileURLToPath(new URL('sallyport', import.meta.url));
  const settings = [
    ['SALLYPORT_PROXY_HOST', new URL(proxyUrl).hostname.replace(/^\[|\]$/g, ''), '127.0.0.1'],
    ['SALLYPORT_PROXY_PORT', new URL(proxyUrl).port, '8181'],
    ['SALLYPORT_PROXY_ADMIN_PORT', new URL(adminUrl).port, '8182'],
  ];
  const unusual = settings.flatMap(([name, value, byDefault]) =>
    value === byDefault ? [] : [`${name}=${value} `],
  );
  return `${unusual.join('')}${cli} run`;
}
