import {
  armKillSwitch,
  type ChangedKillSwitch,
  type Confirmation,
  disarmKillSwitch,
  type KillSwitchRecord,
  listKillSwitches,
} from '../../shared/contract/kill-switches.ts';
import { type ApiOptions, apiClient } from '../support/api-client.ts';
import { ago, printable, printJson, table } from '../support/terminal.ts';

interface ChangeOptions extends ApiOptions {
  /** Milliseconds. */
  readonly wait?: number;
  readonly json?: boolean;
}

interface ArmOptions extends ChangeOptions {
  readonly reason: string;
  readonly tool: string | undefined;
  readonly agent: string | undefined;
  readonly mode: 'warn' | 'enforce' | 'strict' | undefined;
  readonly expires?: string;
}

/** `sallyport kill-switch arm`. */
export async function arm(options: ArmOptions): Promise<number> {
  const { reason, tool, agent, mode, expires, wait, json } = options;
  const kind =
    mode !== undefined ? 'force_mode' : tool !== undefined ? 'block_tool' : 'block_agent';
  const armed = await apiClient(options).call(armKillSwitch, {
    body: {
      kind,
      reason,
      ...(tool === undefined ? {} : { tool }),
      ...(agent === undefined ? {} : { agent_id: agent }),
      ...(mode === undefined ? {} : { mode }),
      ...(expires === undefined ? {} : { expires_at: expires }),
      ...(wait === undefined ? {} : { wait_ms: wait }),
    },
  });
  return printChange(armed, json);
}

/** `sallyport kill-switch list`. */
export async function listArmed(
  options: ApiOptions & { readonly all?: boolean; readonly json?: boolean },
): Promise<number> {
  const status = options.all === true ? 'all' : 'armed';
  const { kill_switches } = await apiClient(options).call(listKillSwitches, { query: { status } });
  if (options.json === true) printJson(kill_switches);
  else if (kill_switches.length === 0) console.log('No kill switch is armed.');
  else console.log(killSwitchTable(kill_switches));
  return 0;
}

/** `sallyport kill-switch disarm`. */
export async function disarm(id: string, options: ChangeOptions): Promise<number> {
  const query = options.wait === undefined ? {} : { wait_ms: String(options.wait) };
  const disarmed = await apiClient(options).call(disarmKillSwitch, { params: { id }, query });
  return printChange(disarmed, options.json);
}

function printChange(
  one: ChangedKillSwitch & { readonly warnings?: readonly string[] | undefined },
  json: boolean | undefined,
): number {
  const { confirmed, missing = [], silent = [], warnings = [] } = one;
  if (json === true) printJson(one);
  else {
    console.log(killSwitchTable([one]));
    for (const text of warnings) console.error(`Warning: ${printable(text)}`);
    if (confirmed !== undefined) {
      console.log(`\n${confirmationText({ confirmed, missing, silent })}`);
    }
  }
  return missing.length === 0 ? 0 : 1;
}

function confirmationText({ confirmed, missing, silent }: Confirmation): string {
  const nowMs = Date.now();
  const rows = (all: Confirmation['missing']) =>
    all.map(({ sidecar, last_seen_at }) => `  ${sidecar}, last seen ${ago(last_seen_at, nowMs)}`);
  return [
    `Confirmed by ${confirmed.length} of ${confirmed.length + missing.length} live sidecars.`,
    ...(missing.length === 0 ? [] : ['Not confirmed in time by:', ...rows(missing)]),
    ...(silent.length === 0 ? [] : ['Not seen recently, not waited for:', ...rows(silent)]),
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
