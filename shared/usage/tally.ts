import { isJsonObject } from '../base/json.ts';
import { columnText } from '../ledger/columns.ts';
import type { EvidenceEvent } from '../ledger/event.ts';
import { amountMax } from './amounts.ts';
import { minuteOf } from './buckets.ts';

/** What one decision adds to the budgets of its agent and tool. */
export interface Tally {
  readonly agentId: string;
  readonly tool: string;
  readonly minute: number;
  /** The decider and its run. */
  readonly source: string;
  /** Below `args`, of a summed value; empty: the calls. */
  readonly path: string;
  readonly amount: number;
}

/** More than any policy asks for of one tool; a sidecar that says more is not believed more. */
const pathsMax = 1_000;
const textMax = 256;
/** What an integer column holds. */
const minuteMax = 2 ** 31 - 1;
const runForm = /^[\w-]{1,64}$/;

/**
 * What an event adds. Only decisions that say so count: `data.usage` is there where the call may
 * proceed and a budget refers to its tool. What is stored in an index is bounded here, whatever a
 * sidecar wrote.
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

/** Whose count it is: a run of a decider knows its own better than anybody. */
export function usageSource(source: string, run: unknown): string {
  return typeof run === 'string' && runForm.test(run) ? `${source}/${run}` : source;
}

function isCountable(path: string, amount: unknown): boolean {
  const isPath = path !== '' && path.length <= textMax && columnText(path) === path;
  return isPath && path.isWellFormed() && typeof amount === 'number' && amount > 0;
}

/** As the key of a row. */
function bounded(text: string): string {
  return columnText(text).slice(0, textMax).toWellFormed();
}
