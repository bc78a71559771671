import { parseArgs } from 'node:util';
import { SettingsError } from '../shared/base/settings.ts';
import type { CallAnswer } from '../shared/contract/base/client.ts';
import { createEnrolmentToken, listSidecars } from '../shared/contract/sidecars.ts';
import { type Environment, environments } from '../shared/vocabulary/action.ts';
import { apiClient, apiOptions } from './api-client.ts';
import { ago, span, table } from './table.ts';

export const usage = `Usage: sallyport sidecars list [--json]
       sallyport sidecars token --agent ID --user ID [--environment prod|staging|dev] [--uses N] [--json]

Options of both: --url URL, --key-file FILE.`;

/** `sallyport sidecars …`: the fleet as it reports itself, and tokens to enlarge it. */
export async function sidecars([verb, ...args]: readonly string[]): Promise<number> {
  switch (verb) {
    case 'list':
      return list([...args]);
    case 'token':
      return token([...args]);
    case '--help':
      console.log(usage);
      return 0;
  }
  console.error(usage);
  return 2;
}

async function list(args: string[]): Promise<number> {
  const { values } = parseArgs({ args, options: apiOptions });
  const fleet = await apiClient(values).call(listSidecars);
  if (values.json === true) console.log(JSON.stringify(fleet, null, 2));
  else console.log(fleetTable(fleet, Date.now()));
  return 0;
}

type Fleet = CallAnswer<typeof listSidecars>;

export function fleetTable({ sidecars: fleet, sections }: Fleet, nowMs: number): string {
  if (fleet.length === 0) {
    return 'No sidecar has enrolled yet. sallyport sidecars token makes what one needs.';
  }
  const rows = fleet.map((one) => {
    const { age_ms, spool_depth, last_decision_at, last_decision, version } = one.report ?? {};
    return [
      one.id,
      one.agent_disabled_at === undefined ? one.agent_id : `${one.agent_id} (disabled)`,
      one.user_id,
      one.environment,
      one.revoked_at === undefined ? ago(one.last_seen_at, nowMs) : 'revoked',
      version ?? '-',
      versionsOf(one, sections),
      age_ms === undefined ? '-' : span(age_ms),
      spool_depth === undefined ? '-' : String(spool_depth),
      last_decision_at === undefined
        ? '-'
        : `${last_decision?.decision ?? ''} ${last_decision?.reason_code ?? ''} ${ago(last_decision_at, nowMs)}`.trim(),
    ];
  });
  const head = [
    'SIDECAR',
    'AGENT',
    'USER',
    'ENV',
    'SEEN',
    'VERSION',
    'SECTIONS',
    'AGE',
    'SPOOL',
    'LAST DECISION',
  ];
  return table(head, rows);
}

/** Every section held, `name:version`; one that is behind shows what is in force beside it. */
function versionsOf(
  { id, report }: Fleet['sidecars'][number],
  sections: Fleet['sections'],
): string {
  const held = report?.versions;
  if (held === undefined) return '-';
  const names = [...new Set([...Object.keys(sections), ...Object.keys(held)])].sort();
  return names
    .map((name) => {
      const current = sections[name];
      const own = name.replace(id, 'own');
      const mine = held[name] ?? 'none';
      return current === undefined || mine === current
        ? `${own}:${mine}`
        : `${own}:${mine}<${current}`;
    })
    .join(' ');
}

async function token(args: string[]): Promise<number> {
  const { values } = parseArgs({
    args,
    options: {
      ...apiOptions,
      agent: { type: 'string' },
      user: { type: 'string' },
      environment: { type: 'string', default: 'prod' },
      uses: { type: 'string', default: '1' },
    },
  });
  const { agent, user, environment, uses, json } = values;
  if (agent === undefined || user === undefined) {
    throw new SettingsError(`A token is for one agent and one user.\n${usage}`);
  }
  if (!isEnvironment(environment)) {
    throw new SettingsError(`--environment: must be one of ${environments.join(', ')}.`);
  }
  if (!/^[1-9]\d{0,3}$/.test(uses)) throw new SettingsError('--uses: must be a number from 1.');
  const made = await apiClient(values).call(createEnrolmentToken, {
    body: { agent_id: agent, user_id: user, environment, max_uses: Number(uses) },
  });
  if (json === true) {
    console.log(JSON.stringify(made, null, 2));
    return 0;
  }
  console.log(made.token);
  console.error(
    `Good for ${uses} sidecar${uses === '1' ? '' : 's'} of agent ${agent} until ${made.expires_at}: start one with it in SALLYPORT_ENROLMENT_TOKEN.`,
  );
  return 0;
}

function isEnvironment(text: string): text is Environment {
  return (environments as readonly string[]).includes(text);
}
