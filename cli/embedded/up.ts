import { fileURLToPath } from 'node:url';
import { ignoreInsecureTls, insecureTlsIgnored } from '../../shared/base/settings.ts';
import { stopSignal } from '../support/stop-signal.ts';
import { printDecisions } from './decision-lines.ts';
import { type Embedded, startEmbedded } from './start-embedded.ts';

/** `sallyport up`: runs everything in one process until SIGINT or SIGTERM; prints each decision unless `quiet`. */
export async function up({ quiet = false }: { readonly quiet?: boolean } = {}): Promise<number> {
  const stopped = stopSignal();
  if (ignoreInsecureTls(process.env)) process.stderr.write(`${insecureTlsIgnored}\n`);
  const embedded = await startEmbedded(
    process.env,
    quiet ? {} : { onDecision: printDecisions(process.stdout) },
  );
  console.log(greeting(embedded));
  await stopped;
  await embedded.close();
  return 0;
}

function greeting({ origin, ownerKey, sidecar, revocation }: Embedded): string {
  const run = runCommand(sidecar);
  const { agentId, userId } = sidecar.identity;
  const state =
    revocation === undefined
      ? 'Sallyport is ready.'
      : `Sallyport runs, but its sidecar refuses every call. ${revocation}`;
  return `
${state}

  API      ${origin}/api
  Docs     ${origin}/api/docs
  Key      ${ownerKey}   (owner; never give it to an agent)
  Proxy    ${sidecar.proxyUrl}
  Agent    ${agentId}, for user ${userId}   (change with SALLYPORT_AGENT_ID and SALLYPORT_USER_ID)
  Health   ${origin}/readyz  ${sidecar.adminUrl}/readyz

Run an agent through it, or set up a shell for one:

  ${run} -- COMMAND
  eval "$(${run} --print)"

Commands such as \`sallyport approvals list\` find this instance in this folder. In other folders, but never in an
agent's shell, run first:

  export SALLYPORT_CONTROL_PLANE_URL=${origin} SALLYPORT_API_KEY=${ownerKey}
`;
}

/** The `run` command with its settings, usable in any folder of this machine. */
function runCommand({ proxyUrl, adminUrl }: Embedded['sidecar']): string {
  const cli = fileURLToPath(new URL('../sallyport', import.meta.url));
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
