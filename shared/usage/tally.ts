import { isJsonObject } from '../base/json.ts';
import { columnText } from '../ledger/columns.ts';
import type { EvidenceEvent } from '../ledger/event.ts';
import { amountMax } from './amounts.ts';
import { minuteOf } from './buckets.ts';

/** One addition to the budgets of an agent and tool, caused by a decision. */
export interface Tally {
  readonly agentId: string;
  readonly tool: string;
  readonly minute: number;
  /** The deciding program, and its run. */
  readonly source: string;
  /** Path of a summed value below `args`; empty for the number of calls. */
  readonly path: string;
  readonly amount: number;
}

/**
 * Maximum number of paths of one event, more than policies use for one tool. Further paths from a
 * sidecar are ignored.
 */
const pathsMax = 1_000;
const textMax = 256;
/** Maximum of an integer column. */
const minuteMax = 2 ** 31 - 1;
const runForm = /^[\w-]{1,64}$/;

/**
 * Returns the additions that an event causes. Only decisions with `data.usage` count: this member
 * is present if the call may proceed and a budget refers to its tool. Values are bounded here,
 * because sidecars supply them and an index stores them.
 */
export function tallyOf(event: EvidenceEvent): readonly Tally[] {
  const { type, agent_id: agentId, tool, data, source } = event;
  const { usage, usage_run: run } = data;
  if (type !== 'decision' || !isJsonObject(usage)) return [];
  if (agentId === undefined || tool === undefined) return [];
  const at = {
    agentId: bounded(agentId),
    tool: bounded(tool),
    minute: Math.min(minuteOf(Date.parse(event.occurred_at)), minuteMax),
    source: usageSource(bounded(source), run),
  };
  const sums = Object.entries(usage)
    .slice(0, pathsMax)
    .filter((entry): entry is [string, number] => isCountable(...entry));
  return [
    { ...at, path: '', amount: 1 },
    ...sums.map(([path, amount]) => ({ ...at, path, amount: Math.min(amount, amountMax) })),
  ];
}

/** Identifies one run of a deciding program. Each run is authoritative for its own counts. */
export function usageSource(source: string, run: unknown): string {
  return typeof run === 'string' && runForm.test(run) ? `${source}/${run}` : source;
}

function isCountable(path: string, amount: unknown): boolean {
  const isPath = path !== '' && path.length <= textMax && columnText(path) === path;
  return isPath && path.isWellFormed() && typeof amount === 'number' && amount > 0;
}

/** Bounds a text for use in a row's key. */
function bounded(text: string): string {
  return columnText(text).slice(0, textMax).toWellFormed();
}
