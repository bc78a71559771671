import { parseArgs } from 'node:util';
import {
  armKillSwitch,
  disarmKillSwitch,
  type KillSwitchRecord,
  listKillSwitches,
} from '../shared/contract/kill-switches.ts';
import { SettingsError } from '../shared/settings.ts';
import { apiClient, apiOptions } from './api-client.ts';
import { table } from './table.ts';

export const usage = `Usage: sallyport kill-switch arm --reason TEXT (--tool GLOB [--agent ID] | --agent ID | --mode MODE [--tool GLOB] [--agent ID])
                                 [--expires TIME] [--json]
       sallyport kill-switch list [--all] [--json]
       sallyport kill-switch disarm ID [--json]

Options of all: --url URL, --key-file FILE. TIME is RFC 3339; MODE is warn, enforce or strict.`;

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
    },
  });
  const { reason, tool, agent, mode, expires, json } = values;
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
    },
  });
  print(armed, json);
  return 0;
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
  const { values, positionals } = parseArgs({ args, options: apiOptions, allowPositionals: true });
  const [id, ...others] = positionals;
  if (id === undefined || others.length > 0) {
    throw new SettingsError(`Name one kill switch by its id.\n${usage}`);
  }
  print(await apiClient(values).call(disarmKillSwitch, { params: { id } }), values.json);
  return 0;
}

function print(one: KillSwitchRecord, json: boolean | undefined): void {
  console.log(json === true ? JSON.stringify(one, null, 2) : killSwitchTable([one]));
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
