import { parseArgs } from 'node:util';
import { SettingsError } from '../shared/base/settings.ts';
import {
  armKillSwitch,
  type ChangedKillSwitch,
  type Confirmation,
  disarmKillSwitch,
  type KillSwitchRecord,
  listKillSwitches,
} from '../shared/contract/kill-switches.ts';
import { apiClient, apiOptions } from './api-client.ts';
import { ago, table, visible } from './table.ts';

export const usage = `Usage: sallyport kill-switch arm --reason TEXT (--tool GLOB [--agent ID] | --agent ID | --mode MODE [--tool GLOB] [--agent ID])
                                 [--expires TIME] [--wait DURATION] [--json]
       sallyport kill-switch list [--all] [--json]
       sallyport kill-switch disarm ID [--wait DURATION] [--json]

Options of all: --url URL, --key-file FILE. TIME is RFC 3339; MODE is warn, enforce or strict.
--wait (up to 10s, such as 5s or 500ms) waits until every live sidecar has confirmed that it
decides by the change, and names those that have not: then the exit code is 1.`;

/** `sallyport kill-switch …`: stop a tool or an agent now. */
export async function killSwitches([verb, ...args]: readonly string[]): Promise<number> {
  switch (verb) {
    case 'arm':
      return arm([...args]);
    case 'list':
      return list([...args]);
    case 'disarm':
      return disarm([...args]);
    case '--help':
      console.log(usage);
      return 0;
  }
  console.error(usage);
  return 2;
}

async function arm(args: string[]): Promise<number> {
  const { values } = parseArgs({
    args,
    options: {
      ...apiOptions,
      reason: { type: 'string' },
      tool: { type: 'string' },
      agent: { type: 'string' },
      mode: { type: 'string' },
      expires: { type: 'string' },
      wait: { type: 'string' },
    },
  });
  const { reason, tool, agent, mode, expires, wait, json } = values;
  const kind =
    mode !== undefined ? 'force_mode' : tool !== undefined ? 'block_tool' : 'block_agent';
  if (reason === undefined || (kind === 'block_agent' && agent === undefined)) {
    throw new SettingsError(`Say what to stop, and why with --reason.\n${usage}`);
  }
  const armed = await apiClient(values).call(armKillSwitch, {
    body: {
      kind,
      reason,
      ...(tool === undefined ? {} : { tool }),
      ...(agent === undefined ? {} : { agent_id: agent }),
      // What is no mode is the API's to refuse: it names those that are.
      ...(mode === undefined ? {} : { mode: mode as 'strict' }),
      ...(expires === undefined ? {} : { expires_at: expires }),
      ...(wait === undefined ? {} : { wait_ms: readWait(wait) }),
    },
  });
  return print(armed, json);
}

async function list(args: string[]): Promise<number> {
  const { values } = parseArgs({ args, options: { ...apiOptions, all: { type: 'boolean' } } });
  const status = values.all === true ? 'all' : 'armed';
  const { kill_switches } = await apiClient(values).call(listKillSwitches, { query: { status } });
  if (values.json === true) console.log(JSON.stringify(kill_switches, null, 2));
  else if (kill_switches.length === 0) console.log('No kill switch is armed.');
  else console.log(killSwitchTable(kill_switches));
  return 0;
}

async function disarm(args: string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args,
    options: { ...apiOptions, wait: { type: 'string' } },
    allowPositionals: true,
  });
  const [id, ...others] = positionals;
  if (id === undefined || others.length > 0) {
    throw new SettingsError(`Name one kill switch by its id.\n${usage}`);
  }
  const query = values.wait === undefined ? {} : { wait_ms: String(readWait(values.wait)) };
  const disarmed = await apiClient(values).call(disarmKillSwitch, { params: { id }, query });
  return print(disarmed, values.json);
}

/** Milliseconds of `5s` or `500ms`. */
function readWait(text: string): number {
  const [, count, unit] = /^(\d{1,5}(?:\.\d{1,3})?)(ms|s)$/.exec(text) ?? [];
  const ms = Math.round(Number(count) * (unit === 's' ? 1_000 : 1));
  if (unit !== undefined && ms <= 10_000) return ms;
  throw new SettingsError(`--wait: ${text} is not a time of at most 10s, such as 5s or 500ms.`);
}

function print(
  one: ChangedKillSwitch & { readonly warnings?: readonly string[] | undefined },
  json: boolean | undefined,
): number {
  console.log(json === true ? JSON.stringify(one, null, 2) : killSwitchTable([one]));
  if (json !== true)
    for (const text of one.warnings ?? []) console.error(`Warning: ${visible(text)}`);
  const { confirmed, missing = [], silent = [] } = one;
  if (json !== true && confirmed !== undefined) {
    console.log(`\n${confirmationText({ confirmed, missing, silent })}`);
  }
  return missing.length === 0 ? 0 : 1;
}

function confirmationText({ confirmed, missing, silent }: Confirmation): string {
  const nowMs = Date.now();
  const named = (all: Confirmation['missing']) =>
    all.map(({ sidecar, last_seen_at }) => `  ${sidecar}, last seen ${ago(last_seen_at, nowMs)}`);
  return [
    `Confirmed by ${confirmed.length} of ${confirmed.length + missing.length} live sidecars.`,
    ...(missing.length === 0 ? [] : ['Not confirmed in time by:', ...named(missing)]),
    ...(silent.length === 0
      ? []
      : ['Not heard from lately, and not waited for:', ...named(silent)]),
  ].join('\n');
}

function killSwitchTable(all: readonly KillSwitchRecord[]): string {
  const rows = all.map((one) => [
    one.id,
    one.status,
    one.kind,
    [one.tool, one.agent_id && `agent ${one.agent_id}`, one.mode].filter(Boolean).join(', '),
    `${one.armed_by} ${one.armed_at}`,
    one.expires_at ?? '-',
    one.reason,
  ]);
  return table(['ID', 'STATUS', 'KIND', 'WHAT', 'ARMED', 'EXPIRES', 'REASON'], rows);
}
