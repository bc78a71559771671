import type { PolicyContext } from '../language/context.ts';
import type { UsageReading } from './usage-reading.ts';

/** What has to be kept of an agent's calls of one tool. */
export interface UsageNeeds {
  /** Paths below `args` whose values are summed, sorted. */
  readonly sums: readonly string[];
}

/** Which calls must be counted for the policies of a set, and which decisions rest on it. */
export interface UsageIndex {
  /** True when no policy refers to usage: then nothing is counted, asked for or looked up. */
  readonly isEmpty: boolean;
  /** Undefined for a tool that no budget of this agent refers to. */
  needsOf(tool: string, agentId: string): UsageNeeds | undefined;
  /** Whether a deciding rule's match hangs on what was done before. */
  decidesIn(context: PolicyContext): boolean;
}

/** Tools are the agent's to name on hosts without bindings: what is remembered of them is bounded. */
const rememberedMax = 1_000;

export function indexUsage(readings: readonly UsageReading[]): UsageIndex {
  if (readings.length === 0) return noUsage;
  const deciding = readings.filter(({ decides }) => decides);
  const remembered = new Map<string, UsageNeeds | undefined>();
  return {
    isEmpty: false,
    needsOf(tool, agentId) {
      const key = `${agentId} ${tool}`;
      if (remembered.has(key)) return remembered.get(key);
      const needs = needsAmong(readings.filter(({ concerns }) => concerns(tool, agentId)));
      if (remembered.size >= rememberedMax) remembered.clear();
      remembered.set(key, needs);
      return needs;
    },
    decidesIn: (context) => deciding.some(({ dependsIn }) => dependsIn(context)),
  };
}

/** Of policies that have no budgets. */
export const noUsage: UsageIndex = {
  isEmpty: true,
  needsOf: () => undefined,
  decidesIn: () => false,
};

function needsAmong(readings: readonly UsageReading[]): UsageNeeds | undefined {
  if (readings.length === 0) return undefined;
  return { sums: [...new Set(readings.flatMap(({ sums }) => sums))].sort() };
}
