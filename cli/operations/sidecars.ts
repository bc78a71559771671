import type { CallAnswer } from '../../shared/contract/base/client.ts';
import { createEnrolmentToken, listSidecars } from '../../shared/contract/sidecars.ts';
import type { Environment } from '../../shared/vocabulary/action.ts';
import { type ApiOptions, apiClient } from '../support/api-client.ts';
import { ago, counted, printJson, table, timeSpan } from '../support/terminal.ts';

type Fleet = CallAnswer<typeof listSidecars>;

/** `sallyport sidecars list`. */
export async function listFleet(
  options: ApiOptions & { readonly json?: boolean },
): Promise<number> {
  const fleet = await apiClient(options).call(listSidecars);
  if (options.json === true) printJson(fleet);
  else console.log(fleetTable(fleet, Date.now()));
  return 0;
}

function fleetTable({ sidecars, sections }: Fleet, nowMs: number): string {
  if (sidecars.length === 0) {
    return 'No sidecars enrolled. Run `sallyport sidecars token` to create an enrolment token.';
  }
  const rows = sidecars.map((one) => {
    const { age_ms, spool_depth, last_decision_at, last_decision, version } = one.report ?? {};
    return [
      one.id,
      one.agent_disabled_at === undefined ? one.agent_id : `${one.agent_id} (disabled)`,
      one.user_id,
      one.environment,
      one.revoked_at === undefined ? ago(one.last_seen_at, nowMs) : 'revoked',
      version ?? '-',
      sectionVersions(one, sections),
      age_ms === undefined ? '-' : timeSpan(age_ms),
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

/** Each section as `name:version`, or `name:held<current` if the sidecar is behind. */
function sectionVersions(
  { id, report }: Fleet['sidecars'][number],
  sections: Fleet['sections'],
): string {
  const held = report?.versions;
  if (held === undefined) return '-';
  const names = [...new Set([...Object.keys(sections), ...Object.keys(held)])].sort();
  return names
    .map((name) => {
      const current = sections[name];
      const label = name.replace(id, 'own');
      const version = held[name] ?? 'none';
      return current === undefined || version === current
        ? `${label}:${version}`
        : `${label}:${version}<${current}`;
    })
    .join(' ');
}

interface TokenOptions extends ApiOptions {
  readonly agent: string;
  readonly user: string;
  readonly environment: Environment;
  readonly uses: number;
  readonly json?: boolean;
}

/** `sallyport sidecars token`. */
export async function createToken(options: TokenOptions): Promise<number> {
  const { agent, user, environment, uses, json } = options;
  const created = await apiClient(options).call(createEnrolmentToken, {
    body: { agent_id: agent, user_id: user, environment, max_uses: uses },
  });
  if (json === true) {
    printJson(created);
    return 0;
  }
  console.log(created.token);
  console.error(
    `Valid for ${counted(uses, 'sidecar')} of agent ${agent} until ${created.expires_at}. Start a sidecar with it in SALLYPORT_ENROLMENT_TOKEN.`,
  );
  return 0;
}
