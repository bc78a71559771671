import type { PolicyContext } from '../language/context.ts';
import type { UsageReading } from './usage-reading.ts';

/** The usage to record for an agent's calls to one tool. */
export interface UsageNeeds {
  /** Paths below `args` whose values are summed, sorted. */
  readonly sums: readonly string[];
}

/** The calls that a policy set must count, and the decisions that depend on the counts. */
export interface UsageIndex {
  /** True if no policy refers to usage; then no calls are counted or looked up. */
  readonly isEmpty: boolean;
  /** The usage to record for this tool and agent; undefined if no budget refers to them. */
  needsOf(tool: string, agentId: string): UsageNeeds | undefined;
  /** True if the match of a deciding rule depends on past usage. */
  decidesIn(context: PolicyContext): boolean;
}

/** Limits the cache, because agents can choose any tool names on hosts without bindings. */
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

/** For policies without budgets. */
export const noUsage: UsageIndex = {
  isEmpty: true,
  needsOf: () => undefined,
  decidesIn: () => false,
};

function needsAmong(readings: readonly UsageReading[]): UsageNeeds | undefined {
  if (readings.length === 0) return undefined;
  return { sums: [...new Set(readings.flatMap(({ sums }) => sums))].sort() };
}
