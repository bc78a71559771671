/**
 * What an agent has already done with a tool, as policies name it (design 4). The decider keeps it;
 * nothing of it comes from the request.
 */
export const usageRoot = 'usage';
export const usageCounts = ['calls_1h', 'calls_24h'] as const;
export type UsageCount = (typeof usageCounts)[number];

const sumPrefix = 'usage.sum_24h.';

/** The path below `args` that `usage.sum_24h.<path>` sums; undefined for any other path. */
export function summedPath(path: string): string | undefined {
  return path.startsWith(sumPrefix) ? path.slice(sumPrefix.length) : undefined;
}

export function isUsagePath(path: string): boolean {
  return path === usageRoot || path.startsWith(`${usageRoot}.`);
}

/**
 * Says what is wrong with a path that begins with `usage`, if anything. One that leads nowhere
 * would be a budget that never holds anybody back.
 */
export function usagePathProblem(path: string): string | undefined {
  if (!isUsagePath(path) || usageCounts.some((count) => path === `${usageRoot}.${count}`)) {
    return undefined;
  }
  const summed = summedPath(path);
  if (summed === 'args' || summed?.startsWith('args.')) {
    return `${JSON.stringify(path)}: what is summed is named as it is below args, as in usage.sum_24h.amount`;
  }
  if (summed !== undefined) return undefined;
  return `${JSON.stringify(path)} is none of usage.calls_1h, usage.calls_24h, usage.sum_24h.<path below args>`;
}
